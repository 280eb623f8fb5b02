// Expected figures are worked out by hand from the steps that each test describes.
#include "commlens/summary/slow_ranks.hpp"

#include <algorithm>

#include <gtest/gtest.h>

#include "commlens/summary/stragglers.hpp"

namespace commlens {
namespace {

using std::chrono::nanoseconds;

/// Simulates a job of ranks with work and calls: a collective ends `cost` ns after its last member arrives,
/// on all of them at once, and a message ends on both sides when the later one arrives.
class Play {
 public:
  explicit Play(std::int64_t ranks) : now_(static_cast<std::size_t>(ranks)) {
    for (Rank rank{0}; rank.value < ranks; ++rank.value) {
      trace.streams.push_back({{rank, rank}, {}, {}, {}});
    }
  }

  void work(std::int64_t rank, std::int64_t ns) { now_[static_cast<std::size_t>(rank)] += ns; }

  void collective(const std::vector<std::int64_t>& ranks, std::int64_t cost, Iteration iteration,
                  CommKind kind = CommKind::all_reduce) {
    std::vector<Rank> members;
    std::int64_t last = 0;
    for (const std::int64_t rank : ranks) {
      members.push_back(Rank{rank});
      last = std::max(last, now(rank));
    }
    const OpId op = trace.intern(CommOp{.kind = kind, .group = trace.groups.intern(members, Axis::unknown)});
    for (const std::int64_t rank : ranks) {
      call(rank, op, last + cost, iteration);
    }
  }

  void message(std::int64_t source, std::int64_t destination, Iteration iteration) {
    const GroupId pair = trace.groups.intern({Rank{source}, Rank{destination}}, Axis::pp);
    const std::int64_t both = std::max(now(source), now(destination));
    call(source, trace.intern(CommOp{.kind = CommKind::send, .group = pair}), both, iteration);
    call(destination, trace.intern(CommOp{.kind = CommKind::recv, .group = pair}), both, iteration);
  }

  /// Advances the clock of a rank.
  void shift_clock(std::int64_t rank, std::int64_t ns) {
    for (Times& times : stream(rank).times) {
      times = {times.issued + nanoseconds(ns), times.started + nanoseconds(ns),
               times.finished + nanoseconds(ns)};
    }
  }

  RankStream& stream(std::int64_t rank) { return trace.streams[static_cast<std::size_t>(rank)]; }
  std::int64_t& now(std::int64_t rank) { return now_[static_cast<std::size_t>(rank)]; }

  Trace trace;

 private:
  void call(std::int64_t rank, OpId op, std::int64_t end, Iteration iteration) {
    stream(rank).events.push_back({op, iteration});
    stream(rank).times.push_back({nanoseconds(now(rank)), nanoseconds(now(rank)), nanoseconds(end)});
    now(rank) = end;
  }

  std::vector<std::int64_t> now_;
};

/// `steps` iterations of four ranks. Each works 1000 ns, rank 2 `slower` ns more; {0,1} and {2,3} meet for
/// 100 ns; each works 10 ns, rank 3 another 10; all meet for 200 ns. With slower = 4000 a step takes 5320 ns:
///   rank     work   in {0,1}, {2,3}   in the world
///   0, 1     1010               100           4210     of [1110, 5320)
///   2        5010               100            210     of [5110, 5320)
///   3        1020              4100            200     of [5120, 5320): it comes last
Play nested_groups(Iteration steps, std::int64_t slower) {
  Play play(4);
  for (Iteration step = 0; step < steps; ++step) {
    for (std::int64_t rank = 0; rank < 4; ++rank) {
      play.work(rank, 1000 + (rank == 2 ? slower : 0));
    }
    play.collective({0, 1}, 100, step);
    play.collective({2, 3}, 100, step);
    for (std::int64_t rank = 0; rank < 4; ++rank) {
      play.work(rank, rank == 3 ? 20 : 10);
    }
    play.collective({0, 1, 2, 3}, 200, step);
  }
  return play;
}

std::vector<std::int64_t> slow_ranks_in(const SlowRanks& slow) {
  std::vector<std::int64_t> ranks;
  for (const RankWork& row : slow.ranks) {
    if (row.is_slow()) {
      ranks.push_back(row.rank.value);
    }
  }
  return ranks;
}

TEST(SlowRanks, AreChargedAndNotTheirVictims) {
  const Stragglers found = stragglers(nested_groups(130, 4000).trace);
  // By arrival rank 3 is to blame: it comes last in all 130 meetings of the world, and others wait 2 * 4010
  // + 10.
  EXPECT_EQ(found.ranks[3].collectives.last, 130);
  EXPECT_EQ(found.ranks[3].collectives.caused, nanoseconds(130 * 8030));
  // By time between calls rank 2 is. Blocks of 64 steps; the first begins at the end of the first call, so 63
  // and 64 steps count; the last 2 steps are less than an eighth of a block. Median of the world: 1010.
  const SlowRanks& slow = found.slow;
  EXPECT_EQ(slow_ranks_in(slow), std::vector<std::int64_t>{2});
  EXPECT_EQ(slow.ranks[2].blocks, 2);
  EXPECT_EQ(slow.ranks[2].slow, 2);
  EXPECT_EQ(slow.ranks[2].excess, nanoseconds(127 * 4000));
  EXPECT_EQ(slow.groups[slow.ranks[2].group].members, (std::vector{Rank{0}, Rank{1}, Rank{2}, Rank{3}}));
  for (const std::size_t other : {0U, 1U, 3U}) {
    EXPECT_EQ(slow.ranks[other].slow, 0) << "rank " << other;
    EXPECT_EQ(slow.ranks[other].excess, nanoseconds(0)) << "rank " << other;
    EXPECT_EQ(slow.ranks[other].blocks, 2) << "rank " << other;
  }
  // From the end of a rank's first call to the end of its last: all steps but the first work and call.
  EXPECT_EQ(slow.ranks[2].between_calls, nanoseconds(130 * 5010 - 5000));
  EXPECT_EQ(slow.ranks[2].in_calls, nanoseconds(130 * 310 - 100));
  EXPECT_EQ(slow.ranks[3].between_calls, nanoseconds(130 * 1020 - 1000));
  EXPECT_EQ(slow.ranks[3].in_calls, nanoseconds(130 * 4300 - 4100));
  ASSERT_EQ(slow.groups.size(), 3U);
  EXPECT_EQ(slow.blocks, 6);
  EXPECT_EQ(slow.differing, 0);
}

TEST(SlowRanks, NeedNoClocks) {
  Play play = nested_groups(130, 4000);
  const SlowRanks before = stragglers(play.trace).slow;
  constexpr std::int64_t hour = 3'600'000'000'000;
  play.shift_clock(0, hour);
  play.shift_clock(2, -hour);
  const SlowRanks after = stragglers(play.trace).slow;
  EXPECT_EQ(after.ranks, before.ranks);
  EXPECT_EQ(after.groups, before.groups);
}

TEST(SlowRanks, AreNoneWhereAllWorkAlike) {
  const SlowRanks slow = stragglers(nested_groups(130, 0).trace).slow;
  EXPECT_EQ(slow.blocks, 6);
  EXPECT_TRUE(slow_ranks_in(slow).empty());
}

TEST(SlowRanks, StandOutByMoreThanATwentiethAndThreeTimesTheSpread) {
  // One block of 64 meetings: the numbers of the ranks are their work a step.
  const auto slow_of = [](const std::vector<std::int64_t>& work) {
    Play play(std::ssize(work));
    std::vector<std::int64_t> all;
    for (std::int64_t rank = 0; rank < std::ssize(work); ++rank) {
      all.push_back(rank);
    }
    for (Iteration step = 0; step < 64; ++step) {
      for (const std::int64_t rank : all) {
        play.work(rank, work[static_cast<std::size_t>(rank)]);
      }
      play.collective(all, 5, step);
    }
    return slow_ranks_in(stragglers(play.trace).slow);
  };
  EXPECT_EQ(slow_of({1000, 1050}), std::vector<std::int64_t>{});  // 50 is not more than a twentieth
  EXPECT_EQ(slow_of({1000, 1052}), std::vector<std::int64_t>{1});
  EXPECT_EQ(slow_of({1000, 1200, 1400}), std::vector<std::int64_t>{});   // spread 200, excess 200
  EXPECT_EQ(slow_of({1000, 1010, 1500}), std::vector<std::int64_t>{2});  // spread 10, excess 490
  EXPECT_EQ(slow_of({2000, 3000, 1000, 1000}), (std::vector<std::int64_t>{0, 1}));
  EXPECT_EQ(slow_of({1900, 3000, 1000, 1000}), std::vector<std::int64_t>{1});  // 900 is masked by 2000
  EXPECT_EQ(slow_of({2000, 2000, 2000, 1000}), std::vector<std::int64_t>{});   // one is fast
}

TEST(SlowRanks, OnceInAWhileAreNotPersistent) {
  Play play(2);
  for (Iteration step = 0; step < 640; ++step) {
    play.work(0, 1000);
    play.work(1, step == 100 ? 1'000'000 : 1000);
    play.collective({0, 1}, 100, step);
  }
  const SlowRanks slow = stragglers(play.trace).slow;
  EXPECT_EQ(slow.ranks[1].slow, 1);
  EXPECT_EQ(slow.ranks[1].blocks, 10);
  EXPECT_EQ(slow.ranks[1].excess, nanoseconds(999'000));
  EXPECT_FALSE(slow.ranks[1].is_slow());
}

/// `steps` iterations of a pipeline of three stages and two micro-batches, forward and back, that ends in a
/// meeting of all.
Play pipeline(Iteration steps, const std::vector<std::int64_t>& work) {
  Play play(3);
  for (Iteration step = 0; step < steps; ++step) {
    for (int micro_batch = 0; micro_batch < 2; ++micro_batch) {
      for (std::int64_t stage = 0; stage < 3; ++stage) {
        play.work(stage, work[static_cast<std::size_t>(stage)]);
        if (stage < 2) {
          play.message(stage, stage + 1, step);
        }
      }
      for (std::int64_t stage = 2; stage > 0; --stage) {
        play.work(stage, work[static_cast<std::size_t>(stage)]);
        play.message(stage, stage - 1, step);
      }
      play.work(0, work[0]);
    }
    play.collective({0, 1, 2}, 50, step);
  }
  return play;
}

TEST(SlowRanks, AreNotStagesThatWaitForOthers) {
  const Stragglers balanced = stragglers(pipeline(100, {1000, 1000, 1000}).trace);
  EXPECT_GT(balanced.ranks[0].messages.waited + balanced.ranks[1].messages.waited +
                balanced.ranks[2].messages.waited,
            nanoseconds(100'000));  // they do wait
  EXPECT_TRUE(slow_ranks_in(balanced.slow).empty());
  const SlowRanks slow = stragglers(pipeline(100, {1000, 1300, 1000}).trace).slow;
  EXPECT_EQ(slow_ranks_in(slow), std::vector<std::int64_t>{1});
  // Blocks of 64 and 36 steps, the first of which begins after the first meeting; 4 pieces of work a step.
  EXPECT_EQ(slow.ranks[1].excess, nanoseconds(99 * 4 * 300));
}

TEST(SlowRanks, AreNotThoseWhosePartnerKeepsARequestOpen) {
  // Rank 0 has a receive open from the first step to the last; both work the same.
  Play play(2);
  const OpId recv = play.trace.intern(
      CommOp{.kind = CommKind::recv, .group = play.trace.groups.intern({Rank{1}, Rank{0}}, Axis::unknown)});
  play.stream(0).events.push_back({recv, 0});
  play.stream(0).times.push_back({});
  for (Iteration step = 0; step < 64; ++step) {
    play.work(0, 1000);
    play.work(1, 1000);
    play.collective({0, 1}, 100, step);
  }
  play.stream(0).times.front().finished = nanoseconds(play.now(0) + 10);
  const SlowRanks slow = stragglers(play.trace).slow;
  EXPECT_TRUE(slow_ranks_in(slow).empty());
  EXPECT_EQ(slow.ranks[0].between_calls, nanoseconds(64 * 1000 - 1000));
}

TEST(SlowRanks, WorkedWhereTheyComputedInsideACall) {
  // Each step is one long call in which rank 1 computes 700 of 900 ns and rank 0 100.
  Play play(2);
  for (Iteration step = 0; step < 64; ++step) {
    for (const std::int64_t rank : {0, 1}) {
      play.work(rank, 100);
      const nanoseconds start(play.now(rank));
      play.stream(rank).compute.push_back({start, start + nanoseconds(rank == 1 ? 700 : 100), step});
    }
    play.collective({0, 1}, 900, step);
  }
  const SlowRanks slow = stragglers(play.trace).slow;
  EXPECT_EQ(slow_ranks_in(slow), std::vector<std::int64_t>{1});
  EXPECT_EQ(slow.ranks[1].between_calls, nanoseconds(63 * 800));
  EXPECT_EQ(slow.ranks[1].in_calls, nanoseconds(63 * 200));
  EXPECT_EQ(slow.ranks[1].excess, nanoseconds(63 * 600));
}

void forget_call(RankStream& stream, std::size_t row) {
  stream.events.erase(stream.events.begin() + static_cast<std::ptrdiff_t>(row));
  stream.times.erase(stream.times.begin() + static_cast<std::ptrdiff_t>(row));
}

TEST(SlowRanks, AreFoundAfterAMissingRecord) {
  // Rank 0 lacks its meeting of the world in step 40: that step is not part of the world's blocks, and no
  // other. What it did then is not known, so in one of the two blocks of {0,1} it seems to have worked.
  Play play = nested_groups(130, 4000);
  forget_call(play.stream(0), 2 * 40 + 1);
  const SlowRanks slow = stragglers(play.trace).slow;
  EXPECT_EQ(slow.differing, 1);
  EXPECT_EQ(slow_ranks_in(slow), std::vector<std::int64_t>{2});
  EXPECT_EQ(slow.ranks[0].slow, 0);  // by the world
  const auto pair = std::find_if(slow.groups.begin(), slow.groups.end(), [](const GroupWork& group) {
    return group.members == std::vector{Rank{0}, Rank{1}};
  });
  ASSERT_NE(pair, slow.groups.end());
  EXPECT_EQ(pair->slow_blocks, 1);
  EXPECT_EQ(slow.ranks[3].slow, 0);
}

TEST(SlowRanks, ReportPartsWithDifferentNumbersOfCalls) {
  // The same without iterations: after the gap the numbers no longer agree, which shows at the end: the last
  // part has 2 calls on three ranks and 1 on rank 0.
  Play play = nested_groups(130, 4000);
  for (RankStream& stream : play.trace.streams) {
    for (CommEvent& event : stream.events) {
      event.iteration = k_unknown_iteration;
    }
  }
  EXPECT_EQ(stragglers(play.trace).slow.differing, 0);
  forget_call(play.stream(0), 2 * 40 + 1);
  EXPECT_EQ(stragglers(play.trace).slow.differing, 1);
}

TEST(SlowRanks, AreNotComparedWhereTheCallsDiffer) {
  // A rank that says barrier where the others say all_reduce.
  Play play = nested_groups(64, 4000);
  const OpId barrier = play.trace.intern(
      CommOp{.kind = CommKind::barrier,
             .group = play.trace.groups.intern({Rank{0}, Rank{1}, Rank{2}, Rank{3}}, Axis::unknown)});
  play.stream(1).events[2 * 20 + 1].op = barrier;
  EXPECT_EQ(stragglers(play.trace).slow.differing, 1);
}

TEST(SlowRanks, AreJudgedByTrainingAlone) {
  // Initialisation, in which rank 1 reads the data, does not count, nor does the way from it to iteration 0.
  Play play(2);
  play.collective({0, 1}, 10, k_init_iteration);
  play.work(1, 1'000'000'000);
  play.collective({0, 1}, 10, k_init_iteration);
  play.work(1, 1'000'000'000);
  for (Iteration step = 0; step < 20; ++step) {
    play.work(0, 1000);
    play.work(1, 1000);
    play.collective({0, 1}, 10, step);
  }
  const SlowRanks slow = stragglers(play.trace).slow;
  EXPECT_EQ(slow.ranks[1].blocks, 1);
  EXPECT_EQ(slow.ranks[1].slow, 0);
  EXPECT_EQ(slow.ranks[1].between_calls, nanoseconds(19 * 1000));
}

TEST(SlowRanks, AreOfTheIterationsThatWereSelected) {
  const SlowRanks slow = stragglers(nested_groups(130, 4000).trace, {.iterations = std::pair(20, 52)}).slow;
  EXPECT_EQ(slow.ranks[2].blocks, 1);
  EXPECT_EQ(slow.ranks[2].excess, nanoseconds(32 * 4000));
}

TEST(SlowRanks, AreUnknownWithoutTimes) {
  Play play = nested_groups(130, 4000);
  play.stream(3).times.clear();
  const Stragglers found = stragglers(play.trace);
  EXPECT_EQ(found.without_times, 260);
  EXPECT_EQ(found.slow.blocks, 2);  // of {0,1} alone
  EXPECT_EQ(found.slow.ranks.size(), 3U);
  EXPECT_TRUE(slow_ranks_in(found.slow).empty());
}

TEST(SlowRanks, OfALateCommunicatorAreJudgedOnItAlone) {
  // Ranks 0 and 1 meet alone, 100 times; rank 1 works more before each; {1,2} begins later.
  Play play(3);
  for (Iteration step = 0; step < 100; ++step) {
    play.work(0, 1000);
    play.work(1, 2000);
    play.work(2, 2000);
    play.collective({0, 1}, 10, step);
    if (step >= 50) {
      play.collective({1, 2}, 10, step);
    }
  }
  const SlowRanks slow = stragglers(play.trace).slow;
  EXPECT_EQ(slow_ranks_in(slow), std::vector<std::int64_t>{1});
  EXPECT_EQ(slow.groups[slow.ranks[1].group].members, (std::vector{Rank{0}, Rank{1}}));
  EXPECT_EQ(slow.ranks[2].blocks, 1);  // 50 meetings
}

}  // namespace
}  // namespace commlens
