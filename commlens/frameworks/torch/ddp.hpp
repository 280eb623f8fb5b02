#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "commlens/frameworks/torch/groups.hpp"
#include "commlens/frameworks/torch/modules.hpp"

namespace commlens::pytorch {

/// Parameters that are reduced together, places in the list they were assigned from, and their type.
struct Bucket {
  std::vector<std::size_t> parameters;
  DType dtype = DType::fp32;
  std::int64_t elements = 0;
};

/// Sizes and types to be put into buckets, in this order. A bucket of a type is closed once its bytes reach
/// the limit of its number among those of the type (the last limit repeats); what remains is closed last, the
/// type that came last first (the order of a hash map of libstdc++). Source:
/// torch/csrc/distributed/c10d/reducer.cpp, compute_bucket_assignment_by_size.
struct BucketItem {
  std::int64_t elements = 0;
  DType dtype = DType::fp32;
};
std::vector<Bucket> assigned(const std::vector<BucketItem>& items, const std::vector<Bytes>& limits);

/// DistributedDataParallel around the modules of a stage: nn/parallel/distributed.py and its reducer.
class DataParallel {
 public:
  /// All outlive it.
  DataParallel(ProgramBuilder& out, const Groups& groups, const std::vector<Module>& modules);

  /// The constructor.
  void initialise();
  /// Before a forward pass whose backward pass will reduce gradients, or not (no_sync).
  void before_forward(bool syncs);
  /// The gradients of this module are complete.
  void after_backward(std::size_t module);
  void end_backward();
  /// Whether the next backward pass reduces, where that is known only then.
  void set_sync(bool syncs) { syncs_ = syncs; }
  /// After the last iteration inside join(), whose last rank to join is `last`.
  void end_of_join(Rank last);
  /// Several backward passes were reduced before the forward pass that rebuilds the buckets, which then finds
  /// each parameter more than once and stops (reducer.cpp, rebuild_buckets: params_.size()).
  bool has_failed() const { return has_failed_; }

 private:
  void broadcast(const std::vector<BucketItem>& items, const Rule& rule, GroupRank root);
  std::vector<BucketItem> states() const;
  std::vector<Bytes> limits() const;
  void rebuild();
  void broadcast_buffers();
  void issue(const Bucket& bucket);
  bool is_left_out(const Bucket& bucket) const;

  ProgramBuilder& out_;
  const Groups& groups_;
  const Ddp& ddp_;
  const std::vector<Module>& modules_;
  std::vector<const Parameter*> trainable_;  // in the order of registration
  std::vector<const Parameter*> ready_;      // in the order in which gradients are complete
  std::vector<std::vector<const Parameter*>> buckets_;
  std::vector<std::size_t> module_of_bucket_;  // whose backward pass completes it
  std::size_t next_ = 0;                       // bucket
  std::vector<StepIndex> open_;                // reductions under way
  std::int64_t synced_ = 0;                    // backward passes
  bool is_rebuilt_ = false;
  bool has_failed_ = false;
  bool syncs_ = true;
  bool sends_buffers_ = true;
};

}  // namespace commlens::pytorch
