#pragma once
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "commlens/summary/overlap.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens {

/// The time that a rank loses to its pipeline in one iteration. Pipeline calls are its sends and receives
/// along pp (or, in a phase of a training step, along an unknown axis; messages of other programs are not
/// pipeline calls); C' is the union of its other calls, K of its compute intervals.
///
///   idle = |span \ (K u C')|           with compute intervals (span: overlap.hpp)
///   in_pipeline_calls = |union of its pipeline calls|     always; an upper bound where sends are
///   asynchronous
///
/// The span is the rank's own, so that no time counts in two iterations: a stage that finishes early and
/// waits for the first micro-batch of the next iteration loses that time in the next one. Summed over
/// iterations, no time is missing or counted twice. The wait of a stage in a collective for slower stages is
/// not part of the bubble: see stragglers.hpp.
struct PipelineBubble {
  RankRange ranks;
  Iteration iteration = 0;
  std::chrono::nanoseconds span{};
  std::chrono::nanoseconds in_pipeline_calls{};
  std::optional<std::chrono::nanoseconds> idle;
  /// `idle` if it is known, else `in_pipeline_calls`.
  std::chrono::nanoseconds bubble() const { return idle.value_or(in_pipeline_calls); }
};

/// The shape of a pipeline, derived from its messages. Stages are the ranks connected by sends and receives,
/// in a line or, with interleaved chunks of the model, in a ring.
struct PipelineShape {
  std::int64_t stages = 1;         // p
  std::int64_t micro_batches = 1;  // m
  std::int64_t chunks = 1;         // v, of the model per rank; 1 unless interleaved
  /// (p - 1) / (v m + p - 1): the part of a stage's time that warm-up and cool-down take when all stages and
  /// micro-batches cost the same and messages nothing. Source: D. Narayanan et al., Efficient Large-Scale
  /// Language Model Training on GPU Clusters Using Megatron-LM, SC 2021, sections 2.2.1 and 2.2.2, who give
  /// the bubble over the ideal time, (p - 1) / (v m); this is the same bubble over the whole time.
  double ideal_bubble() const;
  friend bool operator==(const PipelineShape&, const PipelineShape&) = default;
};

struct Bubbles {
  std::vector<PipelineBubble> rows;    // by rank, then iteration; ranks with pipeline calls that have times
  std::optional<PipelineShape> shape;  // absent when it cannot be determined, or differs between pipelines
};

/// Empty for traces without pipeline calls or without times.
Bubbles pipeline_bubbles(const Trace& trace, const TimeSelection& selection = {});

/// The bubble of a rank, or of each rank of a class, in all iterations but initialisation.
struct BubbleTotal {
  RankRange ranks;
  std::int64_t iterations = 0;
  std::chrono::nanoseconds span{};
  std::chrono::nanoseconds bubble{};
  std::chrono::nanoseconds in_calls{};
  bool is_idle_known = true;  // else `bubble` is, in some iterations, the time in pipeline calls
  void add(const PipelineBubble& row);
};

struct BubbleTotals {
  std::vector<BubbleTotal> by_rank;  // ascending
  std::optional<PipelineShape> shape;
};

BubbleTotals bubble_totals(const Bubbles& bubbles);

/// Whether each op of the trace is of a pipeline, by OpId.
std::vector<bool> pipeline_ops(const Trace& trace);
/// The rows of one stream of a trace whose pipeline_ops are `ops`.
std::vector<PipelineBubble> stream_bubbles(const std::vector<bool>& ops, const RankStream& stream,
                                           const TimeSelection& selection);

/// Determines the shape from a sequence of calls, in any order of the streams.
class PipelineShapeTally {
 public:
  PipelineShapeTally(const Trace& tables, const TimeSelection& selection);
  ~PipelineShapeTally();
  PipelineShapeTally(const PipelineShapeTally&) = delete;
  PipelineShapeTally& operator=(const PipelineShapeTally&) = delete;

  void add(const RankRange& ranks, std::span<const CommEvent> events);
  std::optional<PipelineShape> shape() const;

 private:
  const Trace& tables_;
  TimeSelection selection_;
  std::vector<bool> ops_;
  bool has_ops_;
  std::optional<Iteration> first_;  // in which a rank sends or receives along a pipeline
  std::unique_ptr<class PipelineGraph> graph_;
};

}  // namespace commlens
