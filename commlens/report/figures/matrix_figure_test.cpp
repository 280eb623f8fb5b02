#include "commlens/report/figures/matrix_figure.hpp"

#include <gtest/gtest.h>

#include "commlens/comm/volume.hpp"

namespace commlens {
namespace {

/// A trace of explicit groups; calls are added rank by rank.
class Calls {
 public:
  explicit Calls(std::int64_t ranks) {
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      trace_.streams.push_back({{Rank{rank}, Rank{rank}}, {}, {}, {}});
    }
  }

  struct Call {
    CommKind kind;
    std::vector<Rank> group;
    std::int64_t input_bytes;
    std::int64_t output_bytes;
    Iteration iteration = 0;
  };

  void add(std::int64_t rank, const Call& call) {
    CommOp op;
    op.kind = call.kind;
    op.group = trace_.groups.intern(call.group);
    op.input = {call.input_bytes};
    op.output = {call.output_bytes};
    trace_.streams[static_cast<std::size_t>(rank)].events.push_back({trace_.intern(op), call.iteration});
  }

  /// A call on `size` ranks of which only the number is known.
  void add_unknown(std::int64_t rank, CommKind kind, std::int64_t size, std::int64_t bytes) {
    CommOp op;
    op.kind = kind;
    op.group = trace_.groups.intern_hidden(size, "");
    op.input = op.output = {bytes};
    trace_.streams[static_cast<std::size_t>(rank)].events.push_back({trace_.intern(op), 0});
  }

  FigureInput input() const {
    FigureInput input;
    input.subject = {"calls", &trace_};
    return input;
  }

 private:
  Trace trace_;
};

TEST(TrafficCells, ASendGoesToItsDestinationAndAReceiveNowhere) {
  Calls calls(3);
  calls.add(0, {CommKind::send, {Rank{0}, Rank{2}}, 100, 0});
  calls.add(0, {CommKind::send, {Rank{0}, Rank{2}}, 100, 0});
  calls.add(2, {CommKind::recv, {Rank{0}, Rank{2}}, 0, 100});
  EXPECT_EQ(traffic_cells(calls.input(), 1), (TrafficCells{{{0, 2}, 200}}));
}

TEST(TrafficCells, AnAllReduceIsARingThroughItsMembersInAscendingOrder) {
  // 2 m (n-1)/n = 2 x 90 x 2/3 = 120 bytes from each of ranks 1, 4 and 6 to the next.
  Calls calls(7);
  for (const std::int64_t rank : {1, 4, 6}) {
    calls.add(rank, {CommKind::all_reduce, {Rank{6}, Rank{1}, Rank{4}}, 90, 90});
  }
  EXPECT_EQ(traffic_cells(calls.input(), 1), (TrafficCells{{{1, 4}, 120}, {{4, 6}, 120}, {{6, 1}, 120}}));
}

TEST(TrafficCells, AnAllToAllSendsEqualPartsAndTheRestToTheNextMembers) {
  // m (n-1)/n = 101 x 2/3 = 67 (rounded down once): 33 to each of two, the one left over to the next member.
  Calls calls(3);
  calls.add(1, {CommKind::all_to_all, {Rank{0}, Rank{1}, Rank{2}}, 101, 101});
  EXPECT_EQ(traffic_cells(calls.input(), 1), (TrafficCells{{{1, 2}, 34}, {{1, 0}, 33}}));
}

TEST(TrafficCells, OtherIterationsBarriersAndGroupsOfOneSendNothing) {
  Calls calls(2);
  calls.add(0, {CommKind::barrier, {Rank{0}, Rank{1}}, 0, 0});
  calls.add(0, {CommKind::all_reduce, {Rank{0}}, 64, 64});
  calls.add(0, {CommKind::all_reduce, {Rank{0}, Rank{1}}, 64, 64, 5});
  FigureInput input = calls.input();
  input.iterations = {0, 4};
  EXPECT_TRUE(traffic_cells(input, 1).empty());
}

TEST(TrafficCells, BlocksAddUpWhatTheirRanksSend) {
  Calls calls(4);
  const std::vector<Rank> all = {Rank{0}, Rank{1}, Rank{2}, Rank{3}};
  for (std::int64_t rank = 0; rank < 4; ++rank) {
    calls.add(rank, {CommKind::all_gather, all, 100, 400});  // 300 bytes to the next: 0>1 1>2 2>3 3>0
  }
  EXPECT_EQ(traffic_cells(calls.input(), 2),
            (TrafficCells{{{0, 0}, 300}, {{0, 1}, 300}, {{1, 1}, 300}, {{1, 0}, 300}}));
}

TEST(TrafficCells, RowsAddUpToTheWireBytesWhateverTheSizes) {
  for (const CommKind kind : {CommKind::all_reduce, CommKind::all_gather, CommKind::reduce_scatter,
                              CommKind::all_to_all, CommKind::broadcast, CommKind::reduce}) {
    for (const std::int64_t ranks : {2, 3, 7, 1030}) {
      Calls calls(ranks);
      std::vector<Rank> members;
      for (std::int64_t rank = 0; rank < ranks; ++rank) {
        members.push_back(Rank{rank});
      }
      calls.add(1, {kind, members, 12345, 12345});
      std::int64_t sent = 0;
      for (const auto& [pair, bytes] : traffic_cells(calls.input(), 1)) {
        EXPECT_EQ(pair.first, 1);
        sent += bytes;
      }
      EXPECT_EQ(sent, wire_bytes(kind, Bytes{12345}, ranks).value) << name_of(kind) << " ranks=" << ranks;
    }
  }
}

TEST(TrafficCells, AClassOfRanksCountsForEachOfThem) {
  Trace trace(Mesh{{Axis::pp, 1}, {Axis::dp, 4}, {Axis::tp, 1}});
  CommOp op;
  op.kind = CommKind::all_reduce;
  op.group =
      trace.groups.intern(GroupPattern{.axis = Axis::dp, .spans = {{Axis::dp, {Span::Shape::all, 1}}}});
  op.input = op.output = {40};
  trace.streams.push_back({{Rank{0}, Rank{3}}, {{trace.intern(op), 0}}, {}, {}});
  FigureInput input;
  input.subject = {"class", &trace};
  // 2 x 40 x 3/4 = 60 along each of the four edges of the ring.
  EXPECT_EQ(traffic_cells(input, 1), (TrafficCells{{{0, 1}, 60}, {{1, 2}, 60}, {{2, 3}, 60}, {{3, 0}, 60}}));
}

TEST(RanksPerBlock, IsOneUpTo512RanksThenFollowsTheNodes) {
  EXPECT_EQ(ranks_per_block(512, 0), 1);
  EXPECT_EQ(ranks_per_block(513, 0), 2);
  EXPECT_EQ(ranks_per_block(100'000, 0), 256);  // 391 blocks; 128 would leave 782
  EXPECT_EQ(ranks_per_block(513, 6), 6);
  EXPECT_EQ(ranks_per_block(4096, 6), 12);  // 683 nodes are too many, 342 pairs of nodes are not
}

TEST(MatrixFigure, NamesItsBlocksByTheirFirstRankAndSaysSo) {
  Calls calls(1000);
  calls.add(999, {CommKind::send, {Rank{999}, Rank{3}}, 8, 0});
  const FigureResult figure = matrix_figure(calls.input());
  ASSERT_TRUE(figure);
  EXPECT_EQ(figure->columns[0].plain(0), "998");
  EXPECT_EQ(figure->columns[1].plain(0), "2");
  EXPECT_EQ(figure->columns[2].plain(0), "8");
  ASSERT_EQ(figure->notes.size(), 1U);
  EXPECT_NE(figure->notes[0].find("1,000 ranks"), std::string::npos);
}

TEST(MatrixFigure, IsAbsentWhereNobodySendsAnything) {
  EXPECT_EQ(matrix_figure(Calls(2).input()).error().reason, "no rank sends anything to another");
}

TEST(MatrixFigure, SaysWhenGroupsAreUnknown) {
  Calls calls(3);
  calls.add(0, {CommKind::barrier, {Rank{0}, Rank{1}}, 0, 0});
  EXPECT_EQ(matrix_figure(calls.input()).error().reason, "no rank sends anything to another");
  calls.add(0, {CommKind::send, {}, 100, 0});
  EXPECT_EQ(matrix_figure(calls.input()).error().reason,
            "the trace does not say between which ranks its calls are");
  calls.add(0, {CommKind::send, {Rank{0}, Rank{2}}, 100, 0});
  EXPECT_EQ(
      matrix_figure(calls.input())->notes,
      (std::vector<std::string>{"Not shown: 1 call of which the trace does not say between which ranks."}));
}

// As in osu_bw, sendrecv_perf and an NCCL log without INIT lines: "2 ranks", whose numbers are not known.
TEST(MatrixFigure, DrawsNoMessagesBetweenUnknownRanks) {
  Calls calls(1);
  calls.add_unknown(0, CommKind::send, 2, 100);
  calls.add_unknown(0, CommKind::recv, 2, 100);
  calls.add_unknown(0, CommKind::all_to_all, 2000, 100'000);
  EXPECT_TRUE(traffic_cells(calls.input(), 1).empty());
  EXPECT_EQ(matrix_figure(calls.input()).error().reason,
            "the trace does not say between which ranks its calls are");
  calls.add(0, {CommKind::send, {Rank{0}, Rank{2}}, 100, 0});
  EXPECT_EQ(traffic_cells(calls.input(), 1), (TrafficCells{{{0, 2}, 100}}));
}

// Possible in a trace directory written by hand only; our readers never produce it.
TEST(TrafficCells, AMessageAmongThreeRanksGoesNowhere) {
  Calls calls(3);
  calls.add(0, {CommKind::send, {Rank{0}, Rank{1}, Rank{2}}, 100, 0});
  EXPECT_TRUE(traffic_cells(calls.input(), 1).empty());
}

}  // namespace
}  // namespace commlens
