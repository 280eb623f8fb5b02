#include "commlens/report/figures/timeline_figure.hpp"

#include <chrono>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace commlens {
namespace {

using std::chrono::nanoseconds;

/// A rank that calls on communicators of the same two ranks, one call after the other.
Trace calls_on(const std::vector<CommunicatorId>& communicators) {
  Trace trace;
  RankStream stream{{Rank{0}, Rank{0}}, {}, {}, {}};
  for (const CommunicatorId communicator : communicators) {
    const nanoseconds start(100 * std::ssize(stream.events));
    const GroupId group = trace.groups.intern({Rank{0}, Rank{1}}, Axis::world, communicator);
    stream.events.push_back({trace.intern(CommOp{.kind = CommKind::barrier, .group = group}), 0, -1});
    stream.times.push_back({start, start, start + nanoseconds(10)});
  }
  trace.streams.push_back(std::move(stream));
  return trace;
}

/// The column "group_text" row by row; nothing without it.
std::vector<std::string> groups_in(const Trace& trace) {
  const FigureResult figure = timeline_figure(figure_input({"calls", &trace}, std::nullopt, 0));
  std::vector<std::string> names;
  EXPECT_TRUE(figure);
  for (const FigureColumn& column : figure.value_or(Figure()).columns) {
    for (std::size_t row = 0; column.name == "group_text" && row < column.rows(); ++row) {
      names.push_back(column.plain(row));
    }
  }
  return names;
}

TEST(TimelineGroups, NamesCommunicatorsOfTheSameRanksWhereThereAreSeveral) {
  EXPECT_EQ(groups_in(calls_on({CommunicatorId{7}, CommunicatorId{9}, CommunicatorId{7}})),
            (std::vector<std::string>{"world x2", "world x2 #2", "world x2"}));
  EXPECT_EQ(groups_in(calls_on({CommunicatorId{7}, CommunicatorId{7}})), std::vector<std::string>{});
}

}  // namespace
}  // namespace commlens
