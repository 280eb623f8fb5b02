#include "commlens/cli/train_recipe.hpp"

#include <limits>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "commlens/cli/number_check.hpp"

namespace commlens {
namespace {

constexpr double k_largest_factor = 1e6;
constexpr double k_largest_beta = 1 - 1e-9;
constexpr std::int64_t k_longest_schedule = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t k_usual_seed = 1234;

/// The first that is there.
template <typename Value>
Value either(const std::optional<Value>& flag, const std::optional<Value>& configured, Value usual) {
  return flag.value_or(configured.value_or(usual));
}

double warmup_of(const RecipeFlags& flags, const TrainingRecipe& recipe, double iterations) {
  if (flags.warmup) {
    return static_cast<double>(*flags.warmup);
  }
  return recipe.warmup.value_or(recipe.warmup_fraction.value_or(0) * iterations);
}

}  // namespace

void RecipeFlags::declare(CLI::App& verb) {
  const char* const group = "Optimizer (default: what the configuration says, else this)";
  const auto add = [&](const char* name, auto& value, const char* help) {
    return verb.add_option(name, value, help)->group(group);
  };
  const auto add_number = [&](const char* name, std::optional<double>& value, const char* help) {
    add(name, value, help)->check(between(0.0, k_largest_factor))->type_name("X");
  };
  const auto add_count = [&](const char* name, std::optional<std::int64_t>& value, std::int64_t least,
                             const char* help) {
    add(name, value, help)->check(between(least, k_longest_schedule))->type_name("N");
  };
  add_number("--lr", learning_rate, "Learning rate after the warm-up; 0.0006");
  add_number("--min-lr", min_learning_rate, "Least learning rate; a tenth of --lr");
  add_count("--warmup", warmup, 0, "Iterations of linear warm-up; 0");
  add("--decay", decay, "Of the learning rate; cosine")
      ->check(CLI::IsMember({"constant", "linear", "cosine", "exponential"}));
  add_count("--decay-iterations", decay_iterations, 1,
            "Iterations of the schedule, warm-up included; --iterations");
  add_number("--weight-decay", weight_decay, "Of AdamW; 0.1");
  add("--beta1", beta1, "Of AdamW; 0.9")->check(between(0.0, k_largest_beta))->type_name("X");
  add("--beta2", beta2, "Of AdamW; 0.95")->check(between(0.0, k_largest_beta))->type_name("X");
}

std::uint64_t seed_of(const RecipeFlags& flags, const TrainingRecipe& recipe) {
  return static_cast<std::uint64_t>(either(flags.seed, recipe.seed, k_usual_seed));
}

Result<void> apply_recipe(const RecipeFlags& flags, const TrainingRecipe& recipe,
                          engine::TrainOptions& options) {
  constexpr double usual_share = 0.1;  // of the rate at the end
  LearningRateSchedule& schedule = options.schedule;
  schedule.peak = either(flags.learning_rate, recipe.learning_rate, schedule.peak);
  schedule.minimum = either(flags.min_learning_rate, recipe.min_learning_rate, usual_share * schedule.peak);
  if (schedule.minimum > schedule.peak) {
    return failure(fmt::format("the least learning rate {} is above the learning rate {}; change --min-lr",
                               schedule.minimum, schedule.peak));
  }
  const std::int64_t iterations = either(flags.decay_iterations, recipe.decay_iterations, options.iterations);
  schedule.iterations = static_cast<double>(iterations);
  schedule.warmup = warmup_of(flags, recipe, schedule.iterations);
  schedule.style = recipe.decay.value_or(schedule.style);
  schedule.warms_up_from_zero = recipe.warms_up_from_zero;
  schedule.linear_to_zero = recipe.linear_to_zero;
  if (!flags.decay.empty()) {
    const Result<DecayStyle> style = decay_style_from(flags.decay);
    if (!style) {
      return failure("--decay: " + style.error().message);
    }
    schedule.style = *style;
  }
  options.seed = seed_of(flags, recipe);
  options.weight_decay = either(flags.weight_decay, recipe.weight_decay, options.weight_decay);
  options.beta1 = either(flags.beta1, recipe.beta1, options.beta1);
  options.beta2 = either(flags.beta2, recipe.beta2, options.beta2);
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
