// Verdicts of checks on numbers that are written down here.
#include "commlens/app/reproduce/takeaways.hpp"

#include <gtest/gtest.h>

#include "commlens/app/reproduce/cold_receive.hpp"

namespace commlens::study {
namespace {

using std::chrono::nanoseconds;
using Verdict = Takeaway::Verdict;

TEST(Decided, WhereTheWholeRangeIsOnOneSide) {
  EXPECT_EQ(decided({1.5, 1.2, 2.0}, 1, 2.2), Verdict::pass);
  EXPECT_EQ(decided({0.5, 0.4, 0.9}, 1, 2.2), Verdict::fail);
  EXPECT_EQ(decided({3, 2.5, 4}, 1, 2.2), Verdict::fail);
  EXPECT_EQ(decided({1.5, 0.9, 2.0}, 1, 2.2), Verdict::open);
  EXPECT_EQ(decided({1.5, 1.2, 2.3}, 1, 2.2), Verdict::open);
}

/// A receive whose first message took `first` ns once both ends had begun, and later ones 10.
PairCalls received(int source, int destination, int first) {
  PairCalls calls;
  calls.source = Rank{source};
  calls.destination = Rank{destination};
  calls.first = {nanoseconds(first + 1000), nanoseconds(first)};
  calls.later = {nanoseconds(20), nanoseconds(10)};
  calls.later_calls = 5;
  return calls;
}

TEST(ColdTakeaway, OfThreadsIsOpenHoweverSlowTheFirstReceiveIs) {
  const Takeaway takeaway = cold_takeaway({"threads", "threads of one process", {}, {received(0, 1, 500)}});
  EXPECT_EQ(takeaway.verdict, Verdict::open);
  EXPECT_EQ(takeaway.found, "threads of one process: 75.0 times; once sent, 50.0");  // 1500/20, 500/10
  EXPECT_EQ(takeaway.why, "threads have no connections to make");
}

TEST(ColdTakeaway, IsOpenWhereNoFirstMessageMadeAConnection) {
  const Takeaway takeaway =
      cold_takeaway({"shared", "Open MPI, shared memory", {}, {received(0, 1, 500)}, {}, true});
  EXPECT_EQ(takeaway.verdict, Verdict::open);
  EXPECT_EQ(takeaway.why, "no first message made a connection of its own");
}

TEST(ColdTakeaway, IsDecidedByThePairsThatConnected) {
  const auto over_tcp = [](std::vector<PairCalls> pairs, RankPairs connected) {
    return cold_takeaway({"tcp", "Open MPI, TCP", {}, std::move(pairs), std::move(connected), true});
  };
  const RankPairs both = {{Rank{0}, Rank{1}}, {Rank{2}, Rank{3}}};
  // 500 and 100 ns against 10; the pair that did not connect, 10 against 10, does not count.
  const Takeaway slow = over_tcp({received(0, 1, 500), received(2, 3, 100), received(1, 2, 10)}, both);
  EXPECT_EQ(slow.verdict, Verdict::pass);
  EXPECT_EQ(slow.found, "Open MPI, TCP: 30.0 times (10.0 to 50.0, 2 pairs)");
  EXPECT_TRUE(slow.why.empty());
  EXPECT_EQ(over_tcp({received(0, 1, 12), received(2, 3, 11)}, both).verdict, Verdict::fail);
  const Takeaway mixed = over_tcp({received(0, 1, 500), received(2, 3, 11)}, both);
  EXPECT_EQ(mixed.verdict, Verdict::open);
  EXPECT_EQ(mixed.why, "pairs that made a connection differ");
}

}  // namespace
}  // namespace commlens::study
