#pragma once
#include <cstdint>
#include <vector>

#include "commlens/frameworks/memory_parts.hpp"
#include "commlens/frameworks/torch/fsdp.hpp"

namespace commlens::pytorch {

/// A stage of a rank's: its modules, and the calls of fully_shard on them with meshes of the right sizes.
struct HeldUnits {
  std::vector<Module> modules;
  std::vector<ShardUnit> units;  // of `modules`
  bool has_head = false;
  /// The loss calls the head, the last module, once for each part of the tokens: its gradients are summed in
  /// the reduced type and reduced before the backward pass of the rest (ShardedStage::begin_chunks). 0: the
  /// head is called as all others.
  std::int64_t loss_chunks = 0;
};

/// All parameters of a job without FSDP, as one unit.
ShardUnit whole_unit(const std::vector<Module>& modules);

/// The parameters of a rank as its groups (calls of fully_shard; without FSDP one group of all) hold them:
/// sharded states, and what is gathered and reduced while one of them is at work.
class Units {
 public:
  /// Of a validated job; `rank` of the pipeline.
  Units(const Job& job, std::int64_t rank);
  /// The same of stages and units of one's own.
  Units(const Job& job, const std::vector<HeldUnits>& stages);

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
  /// The same while the loss calls the head in chunks: gradients of this chunk and the sum of the others.
  Bytes in_chunks() const;
  /// And once the chunks are done: the sum and the message that it is copied into.
  Bytes after_chunks() const;
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
  void add(const ShardUnit& unit, const HeldUnits& stage);
  void add(Group& bytes, const Parameter& parameter, std::int64_t shard_ranks) const;
  bool is_open(const ShardUnit& unit) const;
  bool keeps_sums() const;
  Bytes around_chunks() const;

  const Job& job_;
  const Options& options_;
  bool has_head_ = false;
  std::int64_t blocks_ = 0;
  std::vector<Group> groups_;  // the root first, then in forward order
  std::size_t last_block_ = 0;
  std::size_t head_ = 0;
  std::size_t head_group_ = 0;  // the group that holds it, be it the root
  struct Chunks {
    std::int64_t gradients = 0;  // of the head, of one chunk
    std::int64_t sums = 0;       // of those before
    std::int64_t message = 0;
  };
  Chunks chunks_;
};

}  // namespace commlens::pytorch
