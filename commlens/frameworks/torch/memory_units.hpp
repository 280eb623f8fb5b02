#pragma once
#include <cstdint>
#include <vector>

#include "commlens/frameworks/memory_parts.hpp"
#include "commlens/frameworks/torch/fsdp.hpp"

namespace commlens::pytorch {

/// The parameters of a rank as its groups (calls of fully_shard; without FSDP one group of all) hold them:
/// sharded states, and what is gathered and reduced while one of them is at work.
class Units {
 public:
  /// Of a validated job; `rank` of the pipeline.
  Units(const Job& job, std::int64_t rank);
  /// Of a whole model with units of one's own; without FSDP they are not looked at.
  Units(const Job& job, const std::vector<Module>& modules, const std::vector<ShardUnit>& units);

  /// Parameters, gradients and states of AdamW or SGD between the steps.
  MemoryEstimate states() const;
  bool has_head() const { return has_head_; }
  /// Blocks of the rank's largest stage.
  std::int64_t blocks() const { return blocks_; }
  /// Places of groups: the one with the head (after all others where it is the root), and the last one of
  /// blocks.
  std::size_t head() const { return head_; }
  std::size_t last_block() const { return last_block_; }

  /// Gathered parameters, gradients and messages on their way when the backward pass of this group, of which
  /// the root's are a part from the start, begins.
  Bytes in_use(std::size_t group) const;
  /// The same when everything but the root is done.
  Bytes at_end() const;

 private:
  /// Bytes of one group.
  struct Group {
    std::int64_t parameters = 0;  // between steps: this rank's shard, padded
    std::int64_t sharded_gradients = 0;
    std::int64_t optimizer = 0;
    std::int64_t gathered = 0;   // whole parameters beside their shards; 0 where no copy is needed
    std::int64_t kept_part = 0;  // of that, what reshard_after_forward=N leaves
    std::int64_t gradients = 0;  // whole ones, before they are reduced; 0 where they are the sharded ones
    std::int64_t summed = 0;     // whole ones of micro-batches that do not reduce
    std::int64_t message = 0;    // what a reduction copies them into
    bool is_root = false;
    bool is_open = false;  // gathered from the forward to the backward pass
  };
  void set_ranks();
  void add(const ShardUnit& unit, const std::vector<Module>& modules);
  bool is_open(const ShardUnit& unit) const;
  bool keeps_sums() const;

  const Job& job_;
  const Options& options_;
  std::int64_t shard_ranks_ = 1;
  bool is_sharded_ = false;
  bool has_head_ = false;
  std::int64_t blocks_ = 0;
  std::vector<Group> groups_;  // the root first, then in forward order
  std::size_t last_block_ = 0;
  std::size_t head_ = 0;
};

}  // namespace commlens::pytorch
