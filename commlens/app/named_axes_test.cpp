#include "commlens/app/named_axes.hpp"

#include <utility>

#include <gtest/gtest.h>

namespace commlens {
namespace {

/// Four ranks of dp 2 x tp 2, tp fastest: {0, 1} are tensor ranks, {0, 2} replicas, {0, 1, 2, 3} the world.
Trace without_axes() {
  Trace trace;
  CommOp op;
  op.kind = CommKind::all_reduce;
  op.input = op.output = {1};
  for (std::int64_t rank = 0; rank < 4; ++rank) {
    trace.streams.push_back({{Rank{rank}, Rank{rank}}, {}, {}, {}});
  }
  for (const std::vector<Rank>& members :
       {std::vector{Rank{0}, Rank{1}}, std::vector{Rank{0}, Rank{2}},
        std::vector{Rank{0}, Rank{1}, Rank{2}, Rank{3}}, std::vector{Rank{0}, Rank{3}}}) {
    op.group = trace.groups.intern(members);
    trace.streams[0].events.push_back({trace.intern(op), 0});
  }
  return trace;
}

std::vector<std::string> axes_of_calls(const Trace& trace) {
  std::vector<std::string> axes;
  for (const CommEvent& event : trace.streams[0].events) {
    axes.emplace_back(name_of(trace.groups.axis(trace.op(event.op).group)));
  }
  return axes;
}

TEST(NamedAxes, AreThoseOfTheJobsMesh) {
  const Trace named = with_named_axes(without_axes(), Mesh{{Axis::dp, 2}, {Axis::tp, 2}});
  const std::string none(name_of(Axis::unknown));
  EXPECT_EQ(axes_of_calls(named), (std::vector<std::string>{"tp", "dp", "world", none}));
  EXPECT_EQ(named.groups.members(named.op(named.streams[0].events[1].op).group, Rank{0}),
            (std::vector<Rank>{Rank{0}, Rank{2}}));
}

TEST(NamedAxes, LeaveGroupsThatAreNotKnown) {
  Trace trace = without_axes();
  CommOp op;
  op.kind = CommKind::all_gather;
  op.group = trace.groups.intern(std::vector<Rank>{});
  trace.streams[0].events.push_back({trace.intern(op), 0});
  op.group = trace.groups.intern_hidden(2, "secret");
  trace.streams[0].events.push_back({trace.intern(op), 0});
  const Trace named = with_named_axes(std::move(trace), Mesh{{Axis::dp, 2}, {Axis::tp, 2}});
  const auto group_of = [&](std::size_t call) { return named.op(named.streams[0].events[call].op).group; };
  EXPECT_EQ(named.groups.size(group_of(4)), 0);
  EXPECT_EQ(named.groups.name(group_of(5)), "secret");
  EXPECT_EQ(named.groups.axis(group_of(5)), Axis::unknown);
}

TEST(NamedAxes, NeedAJobOfTheSameRanks) {
  const Trace other = with_named_axes(without_axes(), Mesh{{Axis::dp, 8}});
  EXPECT_EQ(axes_of_calls(other), axes_of_calls(without_axes()));
}

}  // namespace
}  // namespace commlens
