#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

#include "commlens/frameworks/deepspeed/engine.hpp"

namespace commlens::deepspeed {

/// The ranks that share a parameter: those that hold the same experts share these.
GroupId sharing_group(const EngineRank& rank, const LocalParameter& parameter);
std::int64_t sharing_ranks(const EngineRank& rank, const LocalParameter& parameter);
/// Elements of a parameter that each of them has.
std::int64_t shard_of(const EngineRank& rank, const LocalParameter& parameter);

/// Ranks of one node: gpus_per_node; where it is not known 8, or half of up to 8 ranks, since quantised
/// gradients, which alone depend on it, are for jobs of several nodes.
std::int64_t node_ranks(const Job& job);

/// Ranks compare a list of so many numbers with that of the first one.
void write_check(ProgramBuilder& out, std::int64_t numbers, const Rule& rule);

/// The gradients of stage 3 as they become complete: a bucket of each dtype, reduced when a gradient no
/// longer fits, on a stream of its own with overlap_comm. Source: runtime/zero/stage3.py:1221
/// __reduce_and_partition_ipg_grads.
class Zero3Reductions {
 public:
  /// `out` and `rank` outlive it.
  Zero3Reductions(ProgramBuilder& out, const EngineRank& rank);

  /// The gradient of a row of the parameters is complete.
  void add(std::size_t parameter);
  /// Reduces what is left, and waits for all.
  void finish();

 private:
  struct Bucket {
    DType dtype = DType::fp32;
    std::vector<std::size_t> rows;
    std::int64_t count = 0;
  };

  void flush_all();
  void flush(Bucket& bucket);
  void write_bucket(const Bucket& bucket);
  bool quantizes() const;
  void write_quantized(const Bucket& bucket);

  ProgramBuilder& out_;
  const EngineRank& rank_;
  std::map<std::string_view, Bucket> buckets_;  // by the name of their dtype
  std::vector<StepIndex> open_;                 // that nothing has waited for yet
};

}  // namespace commlens::deepspeed
