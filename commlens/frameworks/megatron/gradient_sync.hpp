#pragma once
#include <vector>

#include "commlens/frameworks/megatron/gradient_buckets.hpp"
#include "commlens/frameworks/megatron/groups.hpp"
#include "commlens/frameworks/megatron/options.hpp"
#include "commlens/plan/program_builder.hpp"

namespace commlens::megatron {

/// The reductions of gradients and gathers of parameters of one stage, as DistributedDataParallel and the
/// distributed optimizer issue them. Source: core/distributed/param_and_grad_buffer.py.
class GradientSync {
 public:
  /// `parameters` of each chunk. All outlive it.
  GradientSync(ProgramBuilder& out, const MegatronGroups& groups, const Job& job, std::int64_t stage,
               const std::vector<std::vector<ModuleParameter>>& parameters);

  /// How an iteration begins: whether it is the first one, and whether parameters were gathered before it.
  void begin(bool is_first, bool is_gathered);

  /// A module of a chunk is about to be used: its parameters are gathered, if they are not yet
  /// (distributed_data_parallel.py _make_forward_pre_hook).
  void use(std::int64_t chunk, const ModulePlace& place);
  /// The gradients of a module are complete in the last micro-batch (register_grad_ready).
  void complete(std::int64_t chunk, const ModulePlace& place);
  /// All buckets of a chunk at once: start_grad_sync, start_param_sync.
  void reduce(std::int64_t chunk);
  void gather(std::int64_t chunk);
  /// What is left, in finalize_model_grads.
  void finish();
  /// All parameters that the step changed: of each optimizer all buckets.
  void gather_updated(int optimizers);
  /// Whole parameters that one rank each updated (layer_wise_optimizer.py:736 allgather_params).
  void gather_layers();
  /// Parameters that this rank updates.
  Elements updated() const;

  bool gathers_in_forward() const;
  DType gradient_dtype() const { return gradient_dtype_; }

 private:
  struct Bucket {
    GradientBucket part;
    std::size_t waits_for = 0;  // parameters without gradients yet
    bool is_reduced = false;
    bool is_gathered = false;
    bool is_waited_for = false;
  };
  BucketSettings settings_of(std::int64_t chunk, const std::vector<std::vector<ModuleParameter>>& all) const;
  /// Elements that each rank updates of dense parameters or of experts, layer-wise.
  std::vector<std::int64_t> layer_shares(bool is_expert, std::int64_t ranks) const;
  void write_reduction(Bucket& bucket);
  void write_gather(Bucket& bucket);
  bool is_sharded() const { return job_.train.zero_stage > 0 && !options_.is_muon; }

  ProgramBuilder& out_;
  const MegatronGroups& groups_;
  const Job& job_;
  const Options& options_;
  std::int64_t stage_;
  DType gradient_dtype_;
  bool is_first_ = true;
  std::vector<std::vector<Bucket>> chunks_;
  std::vector<ModuleParameter> parameters_;  // of all chunks
  std::vector<StepIndex> under_way_;         // reductions that nothing has waited for yet
};

}  // namespace commlens::megatron
