#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "commlens/summary/slow_ranks.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens {

/// Calls of one communicator that follow each other on a rank, and its work around them. Units are numbered
/// alike by all members: iterations where the program marks them, else each k_block_calls calls.
struct WorkBlock {
  std::int64_t end = 0;        // the unit after its last; it begins where the block before ends
  BlockComparison::Part work;  // of its signature the lowest 16 bits
  /// Bits of a signature that are kept.
  static constexpr std::uint64_t k_signature = 0xFFFF;
  void add(const BlockComparison::Part& part) {
    work.add(part);
    work.signature &= k_signature;
  }
};

/// What a rank did lately on a communicator that has members elsewhere.
struct SpanningWork {
  Rank rank;
  std::size_t channel = 0;  // row of JobProgress::channels
  bool is_marked = false;   // units are iterations
  std::int64_t begin = 0;   // the first unit
  std::vector<WorkBlock> blocks;
  /// Communicators of a rank that are told at most: the widest of those in use.
  static constexpr std::size_t k_most_of_rank = 2;
};

/// The latest parts of one member (CallParts) in blocks of 2^n units, which begin at multiples of as many: so
/// blocks of several members match, whenever each of them is told, and larger ones cover several smaller
/// ones. The more calls a job makes, the larger blocks are: those that are told are of the last minute or
/// two, where all these have k_block_calls calls or more.
class LatestBlocks {
 public:
  static constexpr std::size_t k_told = 12;
  static constexpr std::size_t k_kept = 2 * k_told;
  static constexpr std::chrono::seconds k_span{120};  // that those that are kept cover at least, once all are

  /// Labels of calls in no iteration, by their place among those of the communicator, from 0.
  static std::int64_t unmarked(std::int64_t call) { return k_first_unmarked + call / k_block_calls; }
  static bool is_marked(std::int64_t label) { return label >= 0; }

  /// Labels ascend. Those of iterations replace all others.
  void add(std::int64_t label, const BlockComparison::Part& part);
  void clear() { *this = {}; }
  bool is_empty() const { return blocks_.empty(); }

  /// Blocks to which nothing will come any more; the last k_told of them.
  SpanningWork told() const;
  std::size_t whole() const { return blocks_.empty() ? 0 : blocks_.size() - 1; }
  /// The time of the last of them; of what came after it.
  std::int64_t last_ns() const { return whole() == 0 ? 0 : blocks_[whole() - 1].work.length_ns(); }
  std::int64_t open_ns() const { return blocks_.empty() ? 0 : blocks_.back().work.length_ns(); }

 private:
  static constexpr std::int64_t k_first_unmarked = INT64_MIN / 2;
  static constexpr int k_most_levels = 40;

  std::int64_t end_of(std::int64_t unit) const { return ((unit >> level_) + 1) << level_; }
  void make_room();
  void merge();

  bool is_marked_ = false;
  int level_ = 0;  // new blocks have 2^level_ units
  std::int64_t begin_ = 0;
  std::vector<WorkBlock> blocks_;  // the last one is not whole
};

}  // namespace commlens
