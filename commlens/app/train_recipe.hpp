#pragma once
#include <optional>
#include <string>

#include "commlens/base/result.hpp"
#include "commlens/engine/train.hpp"
#include "commlens/model/job.hpp"

namespace commlens {

/// Optimizer settings; absent ones are those of the configuration.
struct RecipeChoice {
  std::optional<double> learning_rate;
  std::optional<double> min_learning_rate;
  std::optional<std::int64_t> warmup;
  std::optional<DecayStyle> decay;
  std::optional<std::int64_t> decay_iterations;
  std::optional<double> weight_decay;
  std::optional<double> beta1;
  std::optional<double> beta2;
  std::optional<std::int64_t> seed;
};

/// The seed of parameters and data: the choice's, the configuration's, or 1234.
std::uint64_t seed_of(const RecipeChoice& choice, const TrainingRecipe& recipe);

/// Sets seed, schedule and AdamW of `options`: by the choice, then by the configuration, then by our own
/// defaults. Fails for a least rate above the rate.
Result<void> apply_recipe(const RecipeChoice& choice, const TrainingRecipe& recipe,
                          engine::TrainOptions& options);

/// "AdamW, betas 0.9 and 0.95, …; learning rate 6.0e-04, cosine to 6.0e-05 over 10 iterations".
std::string recipe_text(const engine::TrainOptions& options);

/// The ignored keys of the configuration that would change the numbers, in one line; empty: none.
std::string not_honoured_line(const Job& job);

}  // namespace commlens
