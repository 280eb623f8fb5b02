#include "commlens/summary/bubble.hpp"

#include <gtest/gtest.h>

namespace commlens {
namespace {

using std::chrono::nanoseconds;

/// Rank 0 sends to rank 1 from 10 to 40 ns and receives from it from 60 to 80 ns, in one iteration.
Trace exchange(Axis axis, Phase phase) {
  Trace trace;
  RankStream stream{.ranks = {Rank{0}, Rank{0}}};
  const auto call = [&](CommKind kind, GroupId group, std::int64_t started, std::int64_t finished) {
    stream.events.push_back({trace.intern({.kind = kind, .phase = phase, .group = group}), 0});
    stream.times.push_back({nanoseconds(started), nanoseconds(started), nanoseconds(finished)});
  };
  call(CommKind::send, trace.groups.intern({Rank{0}, Rank{1}}, axis), 10, 40);
  call(CommKind::recv, trace.groups.intern({Rank{1}, Rank{0}}, axis), 60, 80);
  trace.streams.push_back(std::move(stream));
  return trace;
}

/// Time in pipeline calls; absent without such calls.
std::optional<nanoseconds> in_pipeline_calls(Axis axis, Phase phase) {
  const Bubbles bubbles = pipeline_bubbles(exchange(axis, phase));
  return bubbles.rows.empty() ? std::nullopt : std::optional(bubbles.rows.at(0).in_pipeline_calls);
}

// 30 ns in the send and 20 ns in the receive.
TEST(PipelineBubble, CountsMessagesOfAnUnknownAxisInPhasesOfATrainingStepOnly) {
  for (const Phase phase : {Phase::forward, Phase::backward, Phase::optimizer}) {
    EXPECT_EQ(in_pipeline_calls(Axis::unknown, phase), nanoseconds(50)) << name_of(phase);
  }
  for (const Phase phase : {Phase::init, Phase::other}) {
    EXPECT_EQ(in_pipeline_calls(Axis::unknown, phase), std::nullopt) << name_of(phase);
  }
}

TEST(PipelineBubble, CountsMessagesAlongThePipelineInEveryPhase) {
  for (const Phase phase : {Phase::init, Phase::forward, Phase::backward, Phase::optimizer, Phase::other}) {
    EXPECT_EQ(in_pipeline_calls(Axis::pp, phase), nanoseconds(50)) << name_of(phase);
  }
}

TEST(PipelineBubble, CountsNoMessagesAlongOtherAxes) {
  for (const Axis axis : {Axis::tp, Axis::cp, Axis::dp}) {
    EXPECT_EQ(in_pipeline_calls(axis, Phase::forward), std::nullopt) << name_of(axis);
  }
}

}  // namespace
}  // namespace commlens
