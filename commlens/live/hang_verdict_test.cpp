// Jobs of a few calls each; who is to blame is worked out by hand.
#include "commlens/live/hang_verdict.hpp"

#include <gtest/gtest.h>

#include "commlens/live/test_support.hpp"

namespace commlens {
namespace {

using test_support::FoundHang;
using test_support::HangJob;
using Ranks = std::vector<std::int64_t>;

const Ranks k_world = {0, 1, 2, 3};

/// All ranks have finished `calls` calls of all.
HangJob well_job(int calls = 3) {
  HangJob job(4);
  for (std::int64_t rank = 0; rank < 4; ++rank) {
    for (int call = 0; call < calls; ++call) {
      job.collective(rank, k_world);
    }
  }
  return job;
}

TEST(Hang, IsNoneWhereAllCallsHaveFinished) {
  const FoundHang found(well_job());
  EXPECT_EQ(found.verdict(), "none");
  EXPECT_TRUE(found.culprits().empty());
  EXPECT_EQ(found.finding.waiting, 0);
}

TEST(Hang, NamesTheRankThatIsInNoCall) {
  HangJob job = well_job();
  for (const std::int64_t rank : {0, 1, 3}) {
    job.collective(rank, k_world, HangJob::open());
  }
  const FoundHang found(job);
  EXPECT_EQ(found.verdict(), "missing");
  EXPECT_EQ(found.culprits(), Ranks{2});
  EXPECT_EQ(found.finding.culprits[0].waiters->directly, 3);
  EXPECT_EQ(found.finding.culprits[0].waiters->in_all, 3);
  EXPECT_EQ(found.point().call.number, 4);
  EXPECT_EQ(found.finding.waiting, 3);
  ASSERT_TRUE(found.job.ranks[2].last);
  EXPECT_EQ(found.job.ranks[2].last->number, 3);
}

// Rank 3 waits for 2 in a pair, and 0 and 1 for both of them in the world: 3 is a victim.
TEST(Hang, NamesNoVictimInNestedGroups) {
  HangJob job = well_job();
  job.collective(0, k_world, HangJob::open());
  job.collective(1, k_world, HangJob::open());
  job.collective(3, {2, 3}, HangJob::open());
  const FoundHang found(job);
  EXPECT_EQ(found.verdict(), "missing");
  EXPECT_EQ(found.culprits(), Ranks{2});
  EXPECT_EQ(found.finding.culprits[0].waiters->directly, 3);
  EXPECT_EQ(found.finding.culprits[0].waiters->in_all, 3);
  EXPECT_EQ(found.job.channels[found.point().call.channel].members.size(), 4U);  // where two wait
}

// Tensor groups {0,1}, {2,3} and data groups {0,2}, {1,3}. Rank 3 stopped: 2 waits for it along tensor, 1
// along data, and 0 for 1.
TEST(Hang, IsFollowedThroughTensorAndDataGroups) {
  HangJob job(4);
  job.collective(0, {0, 1}, HangJob::open());
  job.collective(1, {1, 3}, HangJob::open());
  job.collective(2, {2, 3}, HangJob::open());
  const FoundHang found(job);
  EXPECT_EQ(found.verdict(), "missing");
  EXPECT_EQ(found.culprits(), Ranks{3});
  EXPECT_EQ(found.finding.culprits[0].waiters->directly, 2);
  EXPECT_EQ(found.finding.culprits[0].waiters->in_all, 3);
}

TEST(Hang, NamesARankThatEndedEarly) {
  HangJob job = well_job();
  for (const std::int64_t rank : {0, 2, 3}) {
    job.collective(rank, k_world, HangJob::open());
  }
  job.state(1).has_ended = true;
  const FoundHang found(job);
  EXPECT_EQ(found.verdict(), "missing");
  EXPECT_EQ(found.culprits(), Ranks{1});
}

TEST(Hang, OfRanksThatAllEndedIsNone) {
  HangJob job = well_job();
  job.receive(0, 1, {.state = CallState::under_way, .is_blocking = false});  // a request it never waited for
  for (std::int64_t rank = 0; rank < 4; ++rank) {
    job.state(rank).has_ended = true;
  }
  EXPECT_EQ(FoundHang(job).verdict(), "none");
}

// Over the same members: 0 is in a call of communicator 1, 1 in one of communicator 2.
TEST(Hang, IsADeadlockAcrossTwoCommunicatorsOfTheSameRanks) {
  HangJob job(2);
  job.collective(0, {0, 1}, {.state = CallState::under_way, .communicator = CommunicatorId{1}});
  job.collective(1, {0, 1}, {.state = CallState::under_way, .communicator = CommunicatorId{2}});
  const FoundHang found(job);
  EXPECT_EQ(found.verdict(), "deadlock");
  EXPECT_EQ(found.culprits(), (Ranks{0, 1}));
  EXPECT_FALSE(found.finding.may_compute);
}

// 1 and 2 wait for each other; 0 and 3 for them.
TEST(Hang, NamesTheCircleAndNotThoseThatWaitForIt) {
  HangJob job = well_job();
  job.receive(1, 2, HangJob::open());
  job.receive(2, 1, HangJob::open());
  job.collective(0, k_world, HangJob::open());
  job.collective(3, k_world, HangJob::open());
  const FoundHang found(job);
  EXPECT_EQ(found.verdict(), "deadlock");
  EXPECT_EQ(found.culprits(), (Ranks{1, 2}));
  EXPECT_EQ(found.finding.culprits[0].waiters->directly, 3);  // 2, 0 and 3
  EXPECT_EQ(found.graph.points[found.finding.culprits[0].waits_in.value()].missing,
            std::vector<std::size_t>{2});
}

TEST(Hang, SaysWhereACircleHasRequestsAlone) {
  HangJob job(2);
  const HangJob::Form request = {.state = CallState::under_way, .is_blocking = false};
  job.receive(0, 1, request);
  job.receive(1, 0, request);
  const FoundHang found(job);
  EXPECT_EQ(found.verdict(), "deadlock");
  EXPECT_TRUE(found.finding.may_compute);
}

// A receive that is posted ahead holds nobody who is in a blocking call.
TEST(Hang, WaitsInTheBlockingCallAlone) {
  HangJob job(3);
  job.receive(0, 1, {.state = CallState::under_way, .is_blocking = false});
  job.collective(0, {0, 1, 2}, HangJob::open());
  job.collective(1, {0, 1, 2}, HangJob::open());
  const FoundHang found(job);
  EXPECT_EQ(found.verdict(), "missing");
  EXPECT_EQ(found.culprits(), Ranks{2});
}

TEST(Hang, NamesTheSenderOfAMissingMessage) {
  HangJob job(3);
  job.send(0, 1);
  job.receive(1, 0);
  job.receive(1, 0, HangJob::open());
  job.receive(2, 1, HangJob::open());
  const FoundHang found(job);
  EXPECT_EQ(found.verdict(), "missing");
  EXPECT_EQ(found.culprits(), Ranks{0});
  EXPECT_EQ(found.finding.culprits[0].waiters->directly, 1);
  EXPECT_EQ(found.finding.culprits[0].waiters->in_all, 2);
  EXPECT_EQ(found.point().call.number, 2);
}

TEST(Hang, NamesTheReceiverThatALargeSendWaitsFor) {
  HangJob job(2);
  job.send(0, 1, HangJob::open());
  const FoundHang found(job);
  EXPECT_EQ(found.verdict(), "missing");
  EXPECT_EQ(found.culprits(), Ranks{1});
}

// Messages of one pair in two communicators are numbered apart.
TEST(Hang, CountsMessagesByCommunicator) {
  HangJob job(2);
  job.send(0, 1, {.communicator = CommunicatorId{1}});
  job.receive(1, 0, {.state = CallState::under_way, .communicator = CommunicatorId{2}});
  const FoundHang found(job);
  EXPECT_EQ(found.verdict(), "missing");
  EXPECT_EQ(found.culprits(), Ranks{0});
}

TEST(Hang, OfAReceiveFromAnyRankNamesAllThatMightSend) {
  HangJob job(3);
  job.receive_any(0);
  const FoundHang found(job);
  EXPECT_EQ(found.verdict(), "missing");
  EXPECT_EQ(found.culprits(), (Ranks{1, 2}));
  EXPECT_TRUE(found.finding.is_any_of);
}

// 1 waits for 0, but 2 may still send; what 3 waits for is certain.
TEST(Hang, BlamesNobodyForAReceiveFromAnyRankWhereOthersAreMissed) {
  HangJob job(4);
  job.receive_any(0);
  job.receive(1, 0, HangJob::open());
  job.collective(3, {2, 3}, HangJob::open());
  job.collective(2, {0, 2}, HangJob::open());
  const FoundHang found(job);
  // 0 waits for 1, 2 or 3, who all wait for 0: nobody can send.
  EXPECT_EQ(found.verdict(), "deadlock");
  EXPECT_EQ(found.culprits(), (Ranks{0, 1, 2, 3}));
}

TEST(Hang, IsNoDeadlockWhereOneRankMayStillSendToAnyReceive) {
  HangJob job(3);
  job.receive_any(0);
  job.receive(1, 0, HangJob::open());
  const FoundHang found(job);  // 2 is in no call
  EXPECT_EQ(found.verdict(), "missing");
  EXPECT_EQ(found.culprits(), Ranks{2});
}

TEST(Hang, OfADifferentCountIsAMismatch) {
  HangJob job = well_job(1);
  for (std::int64_t rank = 0; rank < 4; ++rank) {
    job.collective(rank, k_world, {.state = CallState::under_way, .elements = rank == 2 ? 16 : 8});
  }
  const FoundHang found(job);
  EXPECT_EQ(found.verdict(), "mismatch");
  EXPECT_EQ(found.culprits(), Ranks{2});
  ASSERT_TRUE(found.finding.difference);
  EXPECT_EQ(found.finding.difference->number, 2);
  ASSERT_EQ(found.finding.difference->sides.size(), 2U);
  EXPECT_EQ(found.finding.difference->sides[0].second, (std::vector{Rank{0}, Rank{1}, Rank{3}}));
  EXPECT_EQ(found.finding.difference->sides[0].first.elements, 8);
  EXPECT_EQ(found.finding.difference->sides[1].first.elements, 16);
}

TEST(Hang, OfAnotherKindTypeOrRootIsAMismatch) {
  const HangJob::Form open = HangJob::open();
  const auto found_where_last_makes = [&](CommKind kind, HangJob::Form form) {
    HangJob job(3);
    form.state = CallState::under_way;
    HangJob::Form usual = open;
    usual.root = form.root ? std::optional(GroupRank{0}) : std::nullopt;
    const CommKind other = form.root ? kind : CommKind::all_reduce;
    job.collective(0, {0, 1, 2}, usual, other);
    job.collective(1, {0, 1, 2}, usual, other);
    job.collective(2, {0, 1, 2}, form, kind);
    return FoundHang(job);
  };
  for (const FoundHang& found : {found_where_last_makes(CommKind::barrier, {}),
                                 found_where_last_makes(CommKind::all_reduce, {.dtype = DType::fp64}),
                                 found_where_last_makes(CommKind::broadcast, {.root = GroupRank{1}})}) {
    EXPECT_EQ(found.verdict(), "mismatch");
    EXPECT_EQ(found.culprits(), Ranks{2});
  }
}

TEST(Hang, OfCallsWithOwnSizesIsNoMismatch) {
  HangJob job(3);
  for (std::int64_t rank = 0; rank < 2; ++rank) {
    job.collective(rank, {0, 1, 2},
                   {.state = CallState::under_way, .elements = 8 + rank, .name = "MPI_Alltoallv"},
                   CommKind::all_to_all);
  }
  const FoundHang found(job);
  EXPECT_EQ(found.verdict(), "missing");
  EXPECT_EQ(found.culprits(), Ranks{2});
}

// A difference that all have left is not why the job is stuck.
TEST(Hang, IgnoresADifferenceThatDidNoHarm) {
  HangJob job(3);
  job.collective(0, {0, 1}, {.elements = 8});
  job.collective(1, {0, 1}, {.elements = 9});
  job.collective(0, {0, 1, 2}, HangJob::open());
  job.collective(1, {0, 1, 2}, HangJob::open());
  const FoundHang found(job);
  EXPECT_EQ(found.verdict(), "missing");
  EXPECT_EQ(found.culprits(), Ranks{2});
  EXPECT_TRUE(found.job.differences.empty());
}

TEST(Hang, FindsAMismatchBehindADifferenceThatDidNoHarm) {
  HangJob job(2);
  job.collective(0, {0, 1}, {.elements = 8});
  job.collective(1, {0, 1}, {.elements = 9});
  job.collective(0, {0, 1}, {.state = CallState::under_way, .elements = 3});
  job.collective(1, {0, 1}, {.state = CallState::under_way, .elements = 4});
  const FoundHang found(job);
  EXPECT_EQ(found.verdict(), "mismatch");
  ASSERT_TRUE(found.finding.difference);
  EXPECT_EQ(found.finding.difference->number, 2);
}

// A vector type at the root is recorded as 800 bytes, 100 doubles elsewhere: MPI allows that.
TEST(Hang, OfADerivedTypeAgainstItsElementsIsNoMismatch) {
  HangJob job(3);
  job.collective(0, {0, 1, 2}, {.state = CallState::under_way, .elements = 800, .dtype = DType::uint8});
  job.collective(1, {0, 1, 2}, {.state = CallState::under_way, .elements = 100, .dtype = DType::fp64});
  const FoundHang found(job);
  EXPECT_EQ(found.verdict(), "missing");
  EXPECT_EQ(found.culprits(), Ranks{2});
}

// PyTorch gives the calls of one coalesced operation the same number.
TEST(Hang, OfSeveralCallsWithOneNumberIsNoMismatch) {
  HangJob job(2);
  for (const std::int64_t rank : {0, 1}) {
    job.collective(rank, {0, 1}, {.elements = 8, .number = 1});
    job.collective(rank, {0, 1}, {.elements = 10, .number = 2});
    job.collective(rank, {0, 1}, {.elements = 20, .number = 2});
  }
  job.collective(0, {0, 1}, {.state = CallState::under_way, .number = 3});
  const FoundHang found(job);
  EXPECT_EQ(found.verdict(), "missing");
  EXPECT_EQ(found.culprits(), Ranks{1});
}

TEST(Hang, ComparesNoNumbersThatNoJobReaches) {
  HangJob job(2);
  job.collective(0, {0, 1}, {.state = CallState::under_way, .number = 1});
  job.collective(1, {0, 1}, {.state = CallState::under_way, .elements = 9, .number = std::int64_t{1} << 60});
  const FoundHang found(job);  // rank 0 is inside of a call that rank 1 has entered long since
  EXPECT_EQ(found.verdict(), "all_inside");
  EXPECT_TRUE(found.job.differences.empty());
}

/// Ranks of which each waits for any of the others, three receives each.
HangJob receivers(std::int64_t ranks, std::int64_t first) {
  HangJob job(ranks);
  for (std::int64_t rank = first; rank < ranks; ++rank) {
    for (int request = 0; request < 3; ++request) {
      job.receive_any(rank, {.state = CallState::under_way, .is_blocking = false});
    }
  }
  return job;
}

// Each of 2,000 ranks may get its message from each other one: 4 million pairs, were they listed.
TEST(Hang, OfManyReceiversFromAnyRankIsFoundInLittleMemory) {
  const FoundHang circle(receivers(2000, 0));
  EXPECT_EQ(circle.verdict(), "deadlock");
  EXPECT_EQ(circle.culprits().size(), 2000U);
  EXPECT_EQ(circle.finding.culprits[7].waiters->directly, 1999);
  const FoundHang one(receivers(2000, 1));
  EXPECT_EQ(one.verdict(), "missing");
  EXPECT_EQ(one.culprits(), Ranks{0});
  EXPECT_EQ(one.finding.culprits[0].waiters->in_all, 1999);
}

TEST(Hang, OfACallWhoseOtherEndIsNotKnownIsUnmatched) {
  HangJob job(2);
  job.collective(0, {0}, {.state = CallState::under_way, .name = "MPI_Win_lock"}, CommKind::other);
  const FoundHang found(job);
  EXPECT_EQ(found.verdict(), "unmatched");
  EXPECT_TRUE(found.culprits().empty());
  EXPECT_EQ(found.finding.waiting, 1);
  EXPECT_EQ(found.point().waiting, std::vector<std::size_t>{0});
}

// Messages without numbers, as in dumps of PyTorch's flight recorder.
TEST(Hang, OfAMessageWithoutANumberIsUnmatched) {
  HangJob job(2);
  job.receive(1, 0, {.state = CallState::under_way, .is_blocking = false, .is_counted = false});
  const FoundHang found(job);
  EXPECT_EQ(found.verdict(), "unmatched");
  EXPECT_EQ(found.point().waiting, std::vector<std::size_t>{1});
}

TEST(Hang, IsAllInsideWhereEveryMemberHasEntered) {
  HangJob job = well_job();
  for (std::int64_t rank = 0; rank < 4; ++rank) {
    job.collective(rank, k_world, HangJob::open());
  }
  const FoundHang found(job);
  EXPECT_EQ(found.verdict(), "all_inside");
  EXPECT_TRUE(found.culprits().empty());
  EXPECT_EQ(found.point().waiting.size(), 4U);
  EXPECT_EQ(found.point().call.number, 4);
}

// The kernels of 0, 1 and 3 run, and wait for that of rank 2.
TEST(Hang, NamesTheRanksOnWhoseDevicesTheCallHasNotBegun) {
  HangJob job = well_job();
  for (std::int64_t rank = 0; rank < 4; ++rank) {
    job.collective(rank, k_world,
                   {.state = CallState::under_way, .is_blocking = false, .is_on_device = rank != 2});
  }
  const FoundHang found(job);
  EXPECT_EQ(found.verdict(), "all_inside");
  EXPECT_EQ(found.culprits(), Ranks{2});
  EXPECT_EQ(found.point().on_device, (std::vector<std::size_t>{0, 1, 3}));
}

TEST(Hang, NamesNobodyWhereTheCallRunsOnAllDevices) {
  HangJob job = well_job();
  for (std::int64_t rank = 0; rank < 4; ++rank) {
    job.collective(rank, k_world,
                   {.state = CallState::under_way, .is_blocking = false, .is_on_device = true});
  }
  const FoundHang found(job);
  EXPECT_EQ(found.verdict(), "all_inside");
  EXPECT_TRUE(found.culprits().empty());
}

// Queues of a device: each rank has issued calls 4 and 5; rank 1 not 5. The first one is where it hangs.
TEST(Hang, LooksAtTheFirstOfSeveralRequestsOfACommunicator) {
  HangJob job = well_job();
  const HangJob::Form request = {.state = CallState::under_way, .is_blocking = false};
  for (std::int64_t rank = 0; rank < 4; ++rank) {
    job.collective(rank, k_world, request);
    if (rank != 1) {
      job.collective(rank, k_world, request);
    }
  }
  const FoundHang found(job);
  EXPECT_EQ(found.verdict(), "all_inside");
  EXPECT_EQ(found.point().call.number, 4);
}

// All have issued a request, which the others have completed; rank 2 then computes.
TEST(Hang, IsARankWithACompletableRequestThatIsMissedElsewhere) {
  HangJob job = well_job();
  for (std::int64_t rank = 0; rank < 4; ++rank) {
    job.collective(rank, k_world,
                   {.state = rank == 2 ? CallState::under_way : CallState::finished, .is_blocking = false});
    if (rank != 2) {
      job.collective(rank, k_world, HangJob::open());
    }
  }
  const FoundHang found(job);
  EXPECT_EQ(found.verdict(), "missing");
  EXPECT_EQ(found.culprits(), Ranks{2});
}

// It was stopped inside the call, so its entering helps nobody.
TEST(Hang, NamesARankThatCannotGoOnInsideOfACall) {
  HangJob job = well_job();
  for (std::int64_t rank = 0; rank < 4; ++rank) {
    job.collective(rank, k_world, HangJob::open());
  }
  job.halt(3);
  const FoundHang found(job);
  EXPECT_EQ(found.verdict(), "missing");
  EXPECT_EQ(found.culprits(), Ranks{3});
}

// Rank 1 lost a record: its numbers are too low, and it is not accused for that.
TEST(Hang, AccusesNoRankWhoseCallsAreIncomplete) {
  HangJob job(3);
  for (const std::int64_t rank : {0, 2}) {
    job.collective(rank, {0, 1, 2});
  }
  for (const std::int64_t rank : {0, 1}) {
    job.collective(rank, {0, 1, 2}, HangJob::open());
  }
  job.state(1).lost = 1;
  const FoundHang found(job);
  EXPECT_EQ(found.verdict(), "missing");
  EXPECT_EQ(found.culprits(), Ranks{2});
}

// Everyone whose calls are known has entered; nothing is known of rank 1.
TEST(Hang, NamesMembersThatNothingIsKnownOfWhereAllOthersAreThere) {
  HangJob job(1);
  job.collective(0, {0, 1}, HangJob::open());
  const FoundHang found(job);
  EXPECT_EQ(found.verdict(), "missing");
  EXPECT_EQ(found.culprits(), Ranks{1});
  EXPECT_FALSE(found.job.ranks[1].state.is_recorded);
}

// Rings that begin at other calls: the numbers are the source's.
TEST(Hang, TakesTheNumbersOfASourceThatHasThem) {
  HangJob job(2);
  const auto call = [](std::int64_t number, CallState state) {
    return HangJob::Form{.state = state, .number = number};
  };
  job.collective(0, {0, 1}, call(57, CallState::finished));
  job.collective(0, {0, 1}, call(58, CallState::under_way));
  job.collective(1, {0, 1}, call(55, CallState::finished));
  job.collective(1, {0, 1}, call(56, CallState::finished));
  job.collective(1, {0, 1}, call(57, CallState::finished));
  const FoundHang found(job);
  EXPECT_EQ(found.verdict(), "missing");
  EXPECT_EQ(found.culprits(), Ranks{1});
  EXPECT_EQ(found.point().call.number, 58);
}

}  // namespace
}  // namespace commlens
