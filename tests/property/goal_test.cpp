#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "commlens/formats/goal/export.hpp"
#include "commlens/trace/trace.hpp"
#include "tests/simulators/goal_player.hpp"

namespace commlens {
namespace {

std::string goal_of(const Trace& trace) {
  std::string text;
  const Result<void> written =
      formats::goal::write(trace, {}, [&](std::string_view block) { text += block; });
  return written ? text : written.error().message;
}

/// Every rank of `ranks` makes the calls `kinds` on the group of all.
Trace collective_trace(std::int64_t ranks, const std::vector<CommKind>& kinds, std::int64_t bytes) {
  Trace trace;
  std::vector<Rank> members;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    members.push_back(Rank{rank});
  }
  RankStream stream{{Rank{0}, Rank{0}}, {}, {}, {}};
  for (const CommKind kind : kinds) {
    CommOp op{.kind = kind, .dtype = DType::uint8, .group = trace.groups.intern(members)};
    op.input = Elements{kind == CommKind::all_gather ? bytes / ranks : kind == CommKind::barrier ? 0 : bytes};
    op.output = Elements{kind == CommKind::reduce_scatter ? bytes / ranks
                         : kind == CommKind::barrier      ? 0
                                                          : bytes};
    if (has_root(kind)) {
      op.root = GroupRank{1 % ranks};
    }
    stream.events.push_back({trace.intern(op), 0, k_no_micro_batch});
  }
  for (const Rank rank : members) {
    stream.ranks = {rank, rank};
    trace.streams.push_back(stream);
  }
  return trace;
}

TEST(Goal, WritesAnAllReduceOfTwoRanksLetterByLetter) {
  EXPECT_EQ(goal_of(collective_trace(2, {CommKind::all_reduce}, 5)),
            "// all_reduce, all_gather, reduce_scatter: ring; broadcast, reduce: binomial tree; all_to_all: "
            "direct;\n"
            "// barrier: dissemination. Messages of no bytes have one.\n"
            "num_ranks 2\n\n"
            "rank 0 {\n"
            "l1: send 3b to 1 tag 1\n"
            "l2: recv 2b from 1 tag 1\n"
            "l3: send 2b to 1 tag 1\nl3 requires l2\nl3 irequires l1\n"
            "l4: recv 3b from 1 tag 1\nl4 requires l2\nl4 irequires l1\n"
            "}\n\n"
            "rank 1 {\n"
            "l1: send 2b to 0 tag 1\n"
            "l2: recv 3b from 0 tag 1\n"
            "l3: send 3b to 0 tag 1\nl3 requires l2\nl3 irequires l1\n"
            "l4: recv 2b from 0 tag 1\nl4 requires l2\nl4 irequires l1\n"
            "}\n\n");
}

TEST(Goal, SendsTheBytesOfEachAlgorithm) {
  const auto sent = [](CommKind kind, std::int64_t ranks, std::int64_t bytes) {
    const test::PlayedGoal played = test::play_goal(goal_of(collective_trace(ranks, {kind}, bytes)));
    EXPECT_TRUE(played.is_complete()) << name_of(kind);
    return played.sent;
  };
  using Sent = std::vector<std::int64_t>;
  // Rings of 4 ranks and 400 bytes: three parts of 100, and three more to gather the sums.
  EXPECT_EQ(sent(CommKind::all_reduce, 4, 400), (Sent{600, 600, 600, 600}));
  EXPECT_EQ(sent(CommKind::all_gather, 4, 400), (Sent{300, 300, 300, 300}));
  EXPECT_EQ(sent(CommKind::reduce_scatter, 4, 400), (Sent{300, 300, 300, 300}));
  EXPECT_EQ(sent(CommKind::all_to_all, 4, 400), (Sent{300, 300, 300, 300}));
  // 5 bytes on 3 ranks are parts of 2, 2 and 1; in each half a rank sends all but one.
  EXPECT_EQ(sent(CommKind::all_reduce, 3, 5), (Sent{3 + 4, 4 + 3, 3 + 3}));
  // 2 bytes on 4 ranks are parts of 1, 1, 0 and 0: rank p keeps part p + 1, then p + 2.
  EXPECT_EQ(sent(CommKind::all_reduce, 4, 2), (Sent{1 + 2, 2 + 2, 2 + 1, 1 + 1}));
  // A binomial tree from rank 1 of 5: 1 -> 0 (as 4), 3, 2; 3 -> 4.
  EXPECT_EQ(sent(CommKind::broadcast, 5, 10), (Sent{0, 30, 0, 10, 0}));
  EXPECT_EQ(sent(CommKind::reduce, 5, 10), (Sent{10, 0, 10, 10, 10}));
  // Three rounds of one byte.
  EXPECT_EQ(sent(CommKind::barrier, 5, 0), (Sent{3, 3, 3, 3, 3}));
  EXPECT_EQ(sent(CommKind::all_reduce, 4, 0), (Sent{0, 0, 0, 0}));
  EXPECT_EQ(sent(CommKind::broadcast, 1, 10), Sent{0});
}

TEST(Goal, PlaysEveryCollectiveInARowOnGroupsOfEverySize) {
  const std::vector<CommKind> all = {CommKind::all_reduce, CommKind::broadcast,     CommKind::all_to_all,
                                     CommKind::reduce,     CommKind::barrier,       CommKind::all_gather,
                                     CommKind::broadcast,  CommKind::reduce_scatter};
  for (std::int64_t ranks = 1; ranks <= 9; ++ranks) {
    for (const std::int64_t bytes : {std::int64_t{0}, ranks, 24 * ranks}) {
      EXPECT_TRUE(test::play_goal(goal_of(collective_trace(ranks, all, bytes))).is_complete())
          << ranks << " ranks, " << bytes;
    }
  }
}

/// Messages of one rank: positive numbers send to that rank, negative ones receive from it, both + 1.
void add_messages(Trace& trace, std::int64_t rank, const std::vector<std::int64_t>& peers) {
  RankStream stream{{Rank{rank}, Rank{rank}}, {}, {}, {}};
  for (const std::int64_t peer : peers) {
    const bool sends = peer > 0;
    const Rank other{(sends ? peer : -peer) - 1};
    CommOp op{.kind = sends ? CommKind::send : CommKind::recv, .dtype = DType::uint8};
    op.group = trace.groups.intern(sends ? std::vector{Rank{rank}, other} : std::vector{other, Rank{rank}});
    (sends ? op.input : op.output) = Elements{7};
    stream.events.push_back({trace.intern(op), 0, k_no_micro_batch});
  }
  trace.streams.push_back(std::move(stream));
}

TEST(Goal, LetsNeighboursExchangeAndPipelinesRun) {
  Trace exchange;  // both send first
  add_messages(exchange, 0, {2, -2, 2, -2});
  add_messages(exchange, 1, {1, -1, 1, -1});
  EXPECT_TRUE(test::play_goal(goal_of(exchange)).is_complete());
  Trace pipeline;  // three stages, 1F1B with two micro-batches
  add_messages(pipeline, 0, {2, 2, -2, -2});
  add_messages(pipeline, 1, {-1, 3, -1, -3, 1, 3, -3, 1});
  add_messages(pipeline, 2, {-2, 2, -2, 2});
  const test::PlayedGoal played = test::play_goal(goal_of(pipeline));
  EXPECT_TRUE(played.is_complete());
  EXPECT_EQ(played.sent, (std::vector<std::int64_t>{14, 28, 14}));
}

// From 200 to 250 the rank is in no call; from 250, when the second call began, to 280 it computes
// concurrently.
TEST(Goal, MakesTheTimeBetweenCallsComputing) {
  Trace trace = collective_trace(2, {CommKind::barrier, CommKind::barrier, CommKind::barrier}, 0);
  using std::chrono::nanoseconds;
  for (RankStream& stream : trace.streams) {
    for (const auto& [start, end] : {std::pair(100, 200), std::pair(250, 300), std::pair(280, 310)}) {
      stream.times.push_back({nanoseconds(start), nanoseconds(start), nanoseconds(end)});
    }
  }
  const std::string text = goal_of(trace);
  EXPECT_NE(text.find("rank 0 {\n"
                      "l1: send 1b to 1 tag 1\n"
                      "l2: recv 1b from 1 tag 1\n"
                      "l3: calc 50\nl3 requires l2\nl3 irequires l1\n"
                      "l4: send 1b to 1 tag 2\nl4 requires l3\n"
                      "l5: recv 1b from 1 tag 2\nl5 requires l3\n"
                      "l6: calc 30\nl6 irequires l4\n"
                      "l7: send 1b to 1 tag 3\nl7 requires l6\n"
                      "l8: recv 1b from 1 tag 3\nl8 requires l6\n"
                      "}\n"),
            std::string::npos)
      << text;
  EXPECT_TRUE(test::play_goal(text).is_complete());
}

TEST(Goal, ReportsSkippedCalls) {
  Trace trace = collective_trace(2, {CommKind::barrier}, 0);
  const OpId scan = trace.intern(CommOp{.kind = CommKind::other, .name = trace.names.intern("MPI_Scan")});
  trace.streams[0].events.push_back({scan, 0, k_no_micro_batch});
  EXPECT_NE(goal_of(trace).find("// skipped: 1 calls of MPI_Scan\nnum_ranks 2\n"), std::string::npos);
}

TEST(Goal, CountsEveryCallThatItRefuses) {
  Trace trace;
  const GroupId empty = trace.groups.intern(std::vector<Rank>{});  // as a source without sizes leaves it
  std::vector<CommEvent> events;
  for (const std::int64_t elements : {1, 2, 3}) {  // three ops, each called four times
    const OpId op = trace.intern(CommOp{.kind = CommKind::all_reduce,
                                        .dtype = DType::uint8,
                                        .group = empty,
                                        .input = Elements{elements},
                                        .output = Elements{elements}});
    events.insert(events.end(), 4, {op, 0, k_no_micro_batch});
  }
  trace.streams.push_back({{Rank{0}, Rank{1}}, events, {}, {}});
  EXPECT_EQ(goal_of(trace),
            "GOAL needs the ranks of every group; the trace does not tell those of 24 calls (the first: "
            "all_reduce of rank 0 on a group of unknown size)");

  Trace rootless;
  const GroupId pair = rootless.groups.intern({Rank{0}, Rank{1}});
  const OpId broadcast =
      rootless.intern(CommOp{.kind = CommKind::broadcast, .dtype = DType::uint8, .group = pair});
  const OpId reduce = rootless.intern(CommOp{.kind = CommKind::reduce, .dtype = DType::uint8, .group = pair});
  rootless.streams.push_back(
      {{Rank{0}, Rank{1}}, {{reduce, 0, -1}, {broadcast, 0, -1}, {broadcast, 0, -1}}, {}, {}});
  EXPECT_NE(goal_of(rootless).find("that of 6 calls (the first: reduce of rank 0 on a group of 2 ranks)"),
            std::string::npos)
      << goal_of(rootless);
}

/// Of three ranks the first sends nine bytes and receives none, so the destination is not known.
TEST(Goal, RefusesAnAllToAllWhoseBuffersDiffer) {
  Trace trace;
  const GroupId group = trace.groups.intern({Rank{0}, Rank{1}, Rank{2}});
  std::int64_t rank = 0;
  for (const auto& [input, output] : {std::pair(9, 0), std::pair(0, 9), std::pair(0, 0)}) {
    const OpId op = trace.intern(CommOp{.kind = CommKind::all_to_all,
                                        .dtype = DType::uint8,
                                        .group = group,
                                        .input = Elements{input},
                                        .output = Elements{output}});
    trace.streams.push_back({{Rank{rank}, Rank{rank}}, {{op, 0, k_no_micro_batch}}, {}, {}});
    ++rank;
  }
  EXPECT_EQ(
      goal_of(trace),
      "GOAL needs to know how much each rank sends to each other one; of an all_to_all that gives and gets "
      "different amounts the trace has the sums only: 2 calls (the first: all_to_all of rank 0 on a group "
      "of 3 "
      "ranks)");
}

TEST(Goal, RefusesWhatCannotMatch) {
  Trace hidden;
  const OpId op = hidden.intern(CommOp{
      .kind = CommKind::all_reduce, .dtype = DType::uint8, .group = hidden.groups.intern_hidden(4, "pg 1")});
  hidden.streams.push_back({{Rank{0}, Rank{0}}, {{op, 0, k_no_micro_batch}}, {}, {}});
  EXPECT_EQ(goal_of(hidden),
            "GOAL needs the ranks of every group; the trace does not tell those of 1 call (the first: "
            "all_reduce of rank 0 on a group of 4 ranks, pg 1)");

  Trace partial = collective_trace(3, {CommKind::all_reduce}, 6);
  partial.streams.pop_back();
  EXPECT_NE(goal_of(partial).find("rank 0 makes 1 calls on a group of 3 ranks on which rank 2 makes 0"),
            std::string::npos);

  Trace lone;
  add_messages(lone, 0, {2});
  add_messages(lone, 1, {});
  EXPECT_NE(goal_of(lone).find("rank 0 sends 1 messages to rank 1, which receives 0"), std::string::npos);

  Trace rootless = collective_trace(2, {}, 0);
  const OpId broadcast = rootless.intern(CommOp{.kind = CommKind::broadcast,
                                                .dtype = DType::uint8,
                                                .group = rootless.groups.intern({Rank{0}, Rank{1}})});
  rootless.streams[0].events.push_back({broadcast, 0, k_no_micro_batch});
  EXPECT_EQ(goal_of(rootless),
            "GOAL needs the root of every broadcast and reduce; the trace does not tell that of 1 call (the "
            "first: broadcast of rank 0 on a group of 2 ranks)");

  Trace huge = collective_trace(300, {CommKind::all_reduce}, 300);
  for (RankStream& stream : huge.streams) {
    stream.events.resize(3000, stream.events.front());
  }
  EXPECT_NE(goal_of(huge).find("more than 1000000000 operations"), std::string::npos);
}

}  // namespace
}  // namespace commlens
