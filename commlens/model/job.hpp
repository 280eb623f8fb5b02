#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "commlens/base/result.hpp"
#include "commlens/model/layout.hpp"
#include "commlens/model/model_config.hpp"
#include "commlens/model/train_config.hpp"
#include "commlens/model/training_recipe.hpp"

namespace commlens {

enum class Framework : std::uint8_t { paper, deepspeed, neox, megatron, torch_ddp, commlens };
std::string_view name_of(Framework framework);
Result<Framework> framework_from(std::string_view name);

/// Everything a prediction needs: one model, one layout, one way to train, one framework's settings.
struct Job {
  Framework framework = Framework::paper;
  std::string framework_version;  // as the file says; empty: the version the rules were measured on
  ModelConfig model;
  ParallelLayout layout;
  TrainConfig train;
  DeepSpeedOptions deepspeed;  // read by the deepspeed and neox rules
  NeoxOptions neox;
  MegatronOptions megatron;
  DdpOptions ddp;
  CommlensOptions commlens;
  TrainingRecipe recipe;              // of the optimizer: no message depends on it
  std::int64_t iterations = 3;        // how many a call list holds, besides initialisation
  std::int64_t global_batch = 0;      // sequences per step, what decides micro_batches once dp is known; or 0
  std::vector<std::string> warnings;  // unknown keys and the like, each one line with file:line
  /// Settings of the configuration that can change messages and that no rule covers, by name and file:line:
  /// predictions leave them out, so that none of such a job is verified.
  std::vector<std::string> unmodelled;
};

/// Whether DeepSpeed's engine trains it: of the deepspeed and neox rules.
bool runs_deepspeed(const Job& job);

/// True for GPT-NeoX 8b43196f (a commit may be named by more or fewer of its digits), which has sequence
/// parallelism and always runs DeepSpeed's pipeline engine. Source: rules/neox_megatron.md §8.1.
bool is_sequence_parallel_neox(const Job& job);

/// Sequences that all ranks together train on in one iteration, of a validated job.
std::int64_t sequences_per_iteration(const Job& job);

/// The job with its degrees resolved and its vocabulary padded (what that switches on or off is noted in
/// `warnings`), or why no framework could run it: heads or
/// hidden not divisible by tp, non-positive sizes, a product of sizes beyond 2^62. What a single rule set
/// does not support is refused by that rule set.
Result<Job> validated(Job job);

}  // namespace commlens
