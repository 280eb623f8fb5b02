#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "commlens/frameworks/torch/behaviour.hpp"
#include "commlens/frameworks/torch/groups.hpp"
#include "commlens/frameworks/torch/modules.hpp"

namespace commlens::pytorch {

/// The parameters that one call of fully_shard (or one wrapped unit of FSDP1) manages.
struct ShardGroup {
  std::vector<const Parameter*> parameters;
  std::vector<std::size_t> modules;  // of the stage, in forward order; of the root none
  bool is_root = false;
  std::int64_t block = -1;  // place among the blocks of the stage; -1: no block

  bool has_gradients() const;
};

/// The groups of a stage's modules, the root (where it has parameters of its own) first, the others in
/// forward order. `modules` outlives them.
std::vector<ShardGroup> shard_groups(const Job& job, const std::vector<Module>& modules);

/// Bytes and counts of what a group sends. Sources: rules C1 to C6 and B of docs/frameworks/torch.md.
struct GroupSizes {
  Elements gathered_shard;  // this rank's part, in elements of `gather_dtype`
  DType gather_dtype = DType::fp32;
  Elements reduced;  // parameters with gradients, padded: what reduce_scatter takes
  DType reduce_dtype = DType::fp32;
  Elements unpadded;  // of the parameters with gradients
};

/// The state of one stage's groups, and their messages: FSDPState and FSDPParamGroup of PyTorch
/// (distributed/fsdp/_fully_shard) or FSDP1, which sends them in the same order.
class ShardedStage {
 public:
  /// All outlive it.
  ShardedStage(ProgramBuilder& out, const Groups& groups, const std::vector<Module>& modules);

  /// A forward pass of the stage: before its first module and after its last one, and around each module.
  void begin_forward();
  void before_forward(std::size_t module);
  void after_forward(std::size_t module);
  void end_forward();
  /// A backward pass, modules in reverse order.
  void begin_backward();
  void before_backward(std::size_t module);
  void after_backward(std::size_t module);
  void end_backward();

  /// set_requires_gradient_sync, set_requires_all_reduce, set_reshard_after_backward, set_is_last_backward of
  /// the root.
  struct Flags {
    bool reduces = true;
    bool all_reduces = true;
    bool reshards = true;
    bool is_last = true;
  };
  void set(const Flags& flags) { flags_ = flags; }

  /// A whole backward pass of a pipeline stage leaves gradients of all groups.
  void accumulate();
  /// A backward pass in two halves leaves those of the groups that are unsharded when its first half begins:
  /// it looks for the parameters that the modules then have (pipelining/_backward.py, stage_backward_input).
  /// False: they are sharded at the second half, which fails (KeyError).
  void begin_split(std::int64_t micro_batch);
  bool end_split(std::int64_t micro_batch);
  /// The reductions of a pipeline stage, once its last backward pass is done.
  void reduce_all();
  /// Gathers every group that is sharded, in forward order.
  void unshard_all();
  /// Shards all of them, without a message.
  void reshard_all();

  /// Broadcasts of FSDP1's constructor (sync_module_states).
  void broadcast_states();

  /// Elements of the shards that have gradients, for the optimizer.
  Elements updated() const;

 private:
  enum class State : std::uint8_t { sharded, sharded_in_part, unsharded };
  struct Live {
    ShardGroup group;
    GroupSizes sizes;
    State state = State::sharded;
    std::vector<std::size_t> order;  // places in post_forward_order_
    bool in_forward = false;
    bool in_backward = false;
    bool has_accumulated = false;     // gradients, in a pipeline
    std::vector<std::int64_t> split;  // micro-batches between the halves of their backward passes
    bool is_reduced = false;          // its post-backward ran in this pass
    bool reshards_after_forward = true;
  };

  GroupSizes sizes_of(const ShardGroup& group) const;
  ReshardAfterForward reshard_after_forward() const;
  bool reshards(const ShardGroup& group) const;
  void gather(Live& live);
  void shard_after_forward(Live& live);
  void pre_backward(std::size_t index);
  void post_backward(Live& live);
  void reduce(Live& live);
  void sum_partial_gradients(const Live& live);
  void reduce_version_1(const Live& live);
  std::optional<std::size_t> group_of(std::size_t module) const;
  std::optional<std::size_t> root() const;
  std::vector<std::size_t> by_name(const Live& live, std::int64_t count, int direction) const;
  bool input_needs_gradient(std::size_t module) const;
  bool output_needs_gradient(std::size_t module) const;

  ProgramBuilder& out_;
  const Groups& groups_;
  const Options& options_;
  const Behaviour& behaviour_;
  const std::vector<Module>& modules_;
  std::vector<Live> live_;
  std::vector<std::size_t> post_forward_order_;
  std::optional<GroupId> part_;
  Flags flags_;
  bool has_begun_backward_ = false;
  bool receives_ = false;  // its input comes from another stage, and needs a gradient
};

}  // namespace commlens::pytorch
