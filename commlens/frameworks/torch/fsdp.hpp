#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "commlens/frameworks/torch/behaviour.hpp"
#include "commlens/frameworks/torch/groups.hpp"
#include "commlens/frameworks/torch/modules.hpp"
#include "commlens/frameworks/torch/shard_groups.hpp"

namespace commlens::pytorch {

/// The state of one stage's groups, and their messages: FSDPState and FSDPParamGroup of PyTorch
/// (distributed/fsdp/_fully_shard) or FSDP1, which sends them in the same order.
class ShardedStage {
 public:
  /// All outlive it. The units are those of `Fsdp::units`.
  ShardedStage(ProgramBuilder& out, const Groups& groups, const std::vector<Module>& modules);
  /// The same with units and meshes of one's own: the root, if there is one, first, the others in forward
  /// order.
  ShardedStage(ProgramBuilder& out, const Groups& groups, const std::vector<Module>& modules,
               std::vector<ShardUnit> units);

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

  /// A module that the forward pass leaves to the loss, which calls it once for each part of the tokens and
  /// reduces its gradients, and those that earlier passes left in its group, at the last one
  /// (ChunkedLossWrapper of torchtitan). Between these two its parameters stay unsharded.
  void begin_chunks(std::size_t module);
  void end_chunks(std::size_t module);

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

  /// The parameters whose gradients were reduced since the last call.
  std::set<const Parameter*> take_reduced() { return std::exchange(reduced_, {}); }
  /// Elements of the shards that have gradients, for the optimizer.
  Elements updated() const;

 private:
  enum class State : std::uint8_t { sharded, sharded_in_part, unsharded };
  /// FSDPParamGroup.
  struct Held {
    ShardGroup group;
    GroupSizes sizes;
    State state = State::sharded;
    std::vector<std::size_t> order;  // places in post_forward_order_
    bool in_backward = false;
    bool has_accumulated = false;        // gradients, in a pipeline
    bool has_unreduced = false;          // gradients of a pass that did not reduce them
    std::vector<std::int64_t> split;     // micro-batches between the halves of their backward passes
    bool is_reduced = false;             // its post-backward ran in this pass
    std::optional<StepIndex> gathering;  // the gather that computing with it waits for
  };
  /// FSDPState.
  struct Live {
    ShardUnit unit;
    std::vector<Held> groups;
    bool in_forward = false;
    bool reshards_after_forward = true;
    std::optional<std::size_t> chunked = {};  // the module that the loss calls
  };
  struct Place {
    std::size_t unit = 0;
    std::size_t group = 0;
  };

  ReshardAfterForward reshard_after_forward() const;
  bool reshards(const ShardUnit& unit) const;
  void for_groups(const std::function<void(Held&)>& action);
  /// False: no message is needed.
  bool gather(Held& held);
  /// Computing waits for it where the group is used.
  void gather_ahead(Held& held);
  void wait_for(Held& held);
  void gather_all_ahead(Live& live);
  void gather_reversed_ahead(Live& live);
  void begin_forward_of(Live& live, const std::vector<std::size_t>& ahead);
  void shard_after_forward(Live& live);
  void pre_backward(Live& live);
  void prefetch(Live& live, std::size_t group, std::size_t place);
  void post_backward(Live& live);
  void post_backward(Live& live, Held& held);
  void reduce(Held& held, const ShardGroup& group);
  void reduce_version_1(const Held& held);
  /// Sends what reduces a group beside computing, which waits for it at the end of the pass.
  void reduce_beside(const std::function<void()>& send);
  void sum_replicas_beside(bool follows, const std::function<void()>& send);
  void wait_for_reductions();
  void sum_partial_gradients(const Held& held, const ShardGroup& group, DType reduce_dtype);
  ShardGroup without_chunked(const Live& live, const Held& held) const;
  std::optional<std::size_t> unit_of(std::size_t module) const;
  std::optional<std::size_t> root() const;
  std::vector<std::size_t> prefetched(const Live& live, bool is_forward) const;
  bool input_needs_gradient(std::size_t module) const;
  bool output_needs_gradient(std::size_t module) const;

  ProgramBuilder& out_;
  const Groups& groups_;
  const Options& options_;
  const Behaviour& behaviour_;
  const std::vector<Module>& modules_;
  std::vector<Live> live_;
  std::vector<Place> post_forward_order_;
  std::optional<GroupId> part_;
  std::set<const Parameter*> reduced_;
  Flags flags_;
  std::array<IssueMoment, 2> begun_;     // when computing with the last two units began, in this pass
  std::vector<StepIndex> reductions_;    // of this pass
  std::optional<StepIndex> scattering_;  // the last one but those of replicas
  bool has_begun_backward_ = false;
  bool receives_ = false;  // its input comes from another stage, and needs a gradient
};

}  // namespace commlens::pytorch
