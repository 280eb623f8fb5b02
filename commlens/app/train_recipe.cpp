#include "commlens/app/train_recipe.hpp"

#include <vector>

#include <fmt/format.h>

namespace commlens {
namespace {

constexpr std::int64_t k_usual_seed = 1234;

/// The first value that is present.
template <typename Value>
Value either(const std::optional<Value>& chosen, const std::optional<Value>& configured, Value usual) {
  return chosen.value_or(configured.value_or(usual));
}

double warmup_of(const RecipeChoice& choice, const TrainingRecipe& recipe, double iterations) {
  if (choice.warmup) {
    return static_cast<double>(*choice.warmup);
  }
  return recipe.warmup.value_or(recipe.warmup_fraction.value_or(0) * iterations);
}

}  // namespace

std::uint64_t seed_of(const RecipeChoice& choice, const TrainingRecipe& recipe) {
  return static_cast<std::uint64_t>(either(choice.seed, recipe.seed, k_usual_seed));
}

Result<void> apply_recipe(const RecipeChoice& choice, const TrainingRecipe& recipe,
                          engine::TrainOptions& options) {
  constexpr double usual_share = 0.1;  // of the rate at the end
  LearningRateSchedule& schedule = options.schedule;
  schedule.peak = either(choice.learning_rate, recipe.learning_rate, schedule.peak);
  schedule.minimum = either(choice.min_learning_rate, recipe.min_learning_rate, usual_share * schedule.peak);
  if (schedule.minimum > schedule.peak) {
    return failure(fmt::format("the least learning rate {} is above the learning rate {}; change --min-lr",
                               schedule.minimum, schedule.peak));
  }
  const std::int64_t iterations =
      either(choice.decay_iterations, recipe.decay_iterations, options.iterations);
  schedule.iterations = static_cast<double>(iterations);
  schedule.warmup = warmup_of(choice, recipe, schedule.iterations);
  schedule.style = either(choice.decay, recipe.decay, schedule.style);
  schedule.warms_up_from_zero = recipe.warms_up_from_zero;
  schedule.linear_to_zero = recipe.linear_to_zero;
  options.seed = seed_of(choice, recipe);
  options.weight_decay = either(choice.weight_decay, recipe.weight_decay, options.weight_decay);
  options.beta1 = either(choice.beta1, recipe.beta1, options.beta1);
  options.beta2 = either(choice.beta2, recipe.beta2, options.beta2);
  options.loss_scaling = recipe.loss_scaling;
  options.epsilon = recipe.epsilon.value_or(options.epsilon);
  return {};
}

std::string recipe_text(const engine::TrainOptions& options) {
  const LearningRateSchedule& schedule = options.schedule;
  std::string text =
      fmt::format("AdamW, betas {:g} and {:g}, epsilon {:g}, weight decay {:g}; learning rate {:g}",
                  options.beta1, options.beta2, options.epsilon, options.weight_decay, schedule.peak);
  if (schedule.warmup > 0) {
    text += fmt::format(" after {:g} iterations of warm-up", schedule.warmup);
  }
  if (schedule.style == DecayStyle::constant) {
    return text;
  }
  return text + fmt::format(", {} to {:g} over {:g} iterations", name_of(schedule.style), schedule.minimum,
                            schedule.iterations);
}

std::string not_honoured_line(const Job& job) {
  std::vector<std::string> keys = job.recipe.not_honoured;
  if (const auto& window = job.recipe.attention_window; window && window->tokens < job.model.sequence) {
    keys.push_back(fmt::format("{}={} (attention to the whole sequence)", window->key, window->tokens));
  }
  return keys.empty() ? ""
                      : fmt::format("the trainer does otherwise than the configuration says: {}",
                                    fmt::join(keys, ", "));
}

}  // namespace commlens
