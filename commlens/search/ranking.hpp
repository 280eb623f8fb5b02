#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "commlens/search/layouts.hpp"
#include "commlens/search/timed_space.hpp"

namespace commlens {

/// A layout with all that a job of it needs: degrees, chunks, micro-batch and kind of data parallelism in
/// `layout`; recomputation, precision and what is overlapped in `behaviour`.
struct RankedLayout {
  RunLayout layout;
  RunBehaviour behaviour;
  IterationTime time;
  double seconds = 0;
  double memory_bytes = 0;  // of a device
};

/// What layouts differ in, as far as a count of equal ones tells.
constexpr std::array<std::string_view, 6> k_spans = {"tp", "pp", "cp", "dp", "ep", "micro-batch"};

/// The least and the most of each of `k_spans`.
struct SpanOfValues {
  std::int64_t least = 0;
  std::int64_t most = 0;
};

/// Layouts of the space, by time. Of layouts that differ only in sequence parallelism and overlaps the
/// fastest that fits stands for all; selective recomputation is only counted where attention is fused, since
/// it then saves nothing.
struct Ranking {
  std::int64_t evaluated = 0;              // layouts
  std::int64_t fitting = 0;                // of these, in memory
  std::vector<RankedLayout> fastest;       // in memory, the fastest first; of equal times the one with less
  std::vector<RankedLayout> front;         // no other is faster and takes less memory; the fastest first
  std::optional<RankedLayout> with_twice;  // the fastest with twice the memory, where it is faster
  RankedLayout smallest;                   // the one with least memory, where there is any
  std::int64_t equal = 0;                  // as the fastest within the wider of both errors
  std::array<SpanOfValues, k_spans.size()> spans;  // of these
};

struct RankingLimits {
  double memory_bytes = 0;  // of a device
  std::size_t most = 10;    // layouts in `fastest`
};

/// Whether a time is as short as the least of a list, inside the wider error of both.
bool is_near_fastest(double seconds, double spread, double least, double spread_of_least);

/// Evaluates every layout of the spaces.
Ranking ranked_layouts(std::span<const TimedSpace> spaces, const RankingLimits& limits);

/// The run with this layout, and layers padded for its stages.
TrainingRun run_of(const TrainingRun& base, const RankedLayout& layout);

}  // namespace commlens
