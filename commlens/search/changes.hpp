#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "commlens/search/ranking.hpp"

namespace commlens {

/// One change of a layout, and what it gives.
struct LayoutChange {
  std::string setting;  // "micro-batch"
  std::string from;
  std::string to;
  RankedLayout layout;
  bool fits = true;  // in memory
};

/// Every single step from this layout that is in one of the spaces: a degree halved or doubled at the cost of
/// the data ranks, the next sizes of micro-batches and numbers of chunks, other recomputation, other kinds of
/// data parallelism, a switch turned. Those that fit first, then by time.
std::vector<LayoutChange> changes_of(std::span<const TimedSpace> spaces, const RankedLayout& layout,
                                     double memory_limit);

/// A part of an iteration's time.
struct TimePart {
  std::string_view name;
  double seconds = 0;
};
/// compute, tensor messages, bubble, messages of stages, data messages, optimizer, other; the longest first.
std::vector<TimePart> parts_of_time(const IterationTime& time);

/// "ZeRO-3 over 8", …: a kind of data parallelism in words.
std::string name_of(DataParallelKind kind, std::int64_t shard_group);
std::string_view name_of(Recompute recompute);

/// What of an iteration is overlapped: "tensor", "stages", "gradients", "parameters", "experts".
std::vector<std::string> overlaps_of(const RunLayout& layout, const RunBehaviour& behaviour);

}  // namespace commlens
