#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "commlens/base/result.hpp"
#include "commlens/model/layout.hpp"
#include "commlens/model/model_config.hpp"
#include "commlens/model/option_set.hpp"
#include "commlens/model/train_config.hpp"
#include "commlens/model/training_recipe.hpp"

namespace commlens {

/// Everything a prediction needs: one model, one layout, one way to train, one framework's settings.
struct Job {
  std::string framework = "paper";  // whose rules it follows, by name (frameworks/frameworks.hpp)
  std::string framework_version;    // as the file has it; empty: the default one
  ModelConfig model;
  ParallelLayout layout;
  TrainConfig train;
  OptionSet options;              // settings that only one framework has
  TrainingRecipe recipe;          // of the optimizer: no message depends on it
  std::int64_t iterations = 3;    // how many a call list holds, besides initialisation
  std::int64_t global_batch = 0;  // sequences per step, what decides micro_batches once dp is known; or 0
  /// Another framework's configuration described it: settings that do not apply here are skipped, not
  /// refused.
  bool is_converted = false;
  std::vector<std::string> warnings;  // unknown keys and the like, each one line with file:line
  /// Settings of the configuration that can change messages and that no rule covers, by name and file:line:
  /// predictions skip them, so that none of such a job is verified.
  std::vector<std::string> unmodelled;
};

/// Sets recomputation; activations are partitioned only where everything is recomputed.
void set_recompute(Job& job, Recompute recompute);

/// Sequences that all ranks together train on in one iteration, of a validated job.
std::int64_t sequences_per_iteration(const Job& job);

/// What a framework changes of a job while it is checked.
struct JobHooks {
  void (*settle)(Job& job) = nullptr;   // once the degrees are known
  bool pads_to_tensor_ranks = false;    // rounds the vocabulary up to a multiple of the tensor ranks itself
  bool takes_uneven_stages = false;     // virtual stages of different numbers of layers
  bool splits_heads_of_groups = false;  // tensor ranks may share a key/value head
};

/// The job with its degrees resolved and its vocabulary padded (what that switches on or off is noted in
/// `warnings`), or why no framework could run it: heads or
/// hidden not divisible by tp, non-positive sizes, a product of sizes beyond 2^62.
Result<Job> checked(Job job, const JobHooks& hooks);

}  // namespace commlens
