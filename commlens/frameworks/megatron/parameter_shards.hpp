#pragma once
#include <optional>
#include <vector>

#include "commlens/frameworks/megatron/stage_context.hpp"

namespace commlens::megatron {

/// Data parallelism that shards more than the optimizer's states, instead of GradientSync: Megatron's own
/// FSDP (core/distributed/fsdp), or PyTorch's FSDP2 (core/distributed/torch_fully_sharded_data_parallel.py).
class ParameterShards {
 public:
  /// `stage` outlives it.
  explicit ParameterShards(const StageContext& stage);

  /// Once, behind the start of the model.
  void start();
  /// An iteration: the first one, or one behind an evaluation.
  void begin(bool is_first, bool follows_evaluation);
  /// Ahead of a pass of a micro-batch, and behind its backward pass.
  void forward();
  void evaluate();
  void backward();
  void backward_ends(bool is_last_micro_batch);
  void step_ends();

 private:
  /// Parameters that are gathered and reduced together.
  struct Unit {
    std::int64_t count = 0;  // elements of all ranks together, with padding
    std::int64_t layer = -1;
    std::vector<std::size_t> dimensions;  // of each parameter, matrices first
  };
  void add_own_units();
  void add_torch_units();
  void close_own(std::vector<ModuleParameter>& open, std::int64_t layer);
  void gather(const Unit& unit);
  void reduce(const Unit& unit);
  bool shards_parameters() const;
  bool is_own() const { return stage_.options.is_megatron_fsdp; }

  const StageContext& stage_;
  std::int64_t ranks_;
  std::vector<Unit> units_;  // what is outside of layers, then the layers
  bool is_gathered_ = false;
  bool has_run_ = false;  // a first micro-batch of the iteration
  bool is_first_ = false;
};

}  // namespace commlens::megatron
