#include "commlens/bench/replay_plan.hpp"

#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "commlens/bench/replay_buffers.hpp"
#include "commlens/bench/replay_meetings.hpp"
#include "commlens/bench/replay_test_job.hpp"

namespace commlens::bench {
namespace {

using std::chrono::microseconds;
using test_support::ReplayJob;

/// "+5 issue 0, wait 0": the steps of a rank, with microseconds before them.
std::string steps_text(const ReplayPlan& plan, std::size_t rank) {
  std::string text;
  for (const ReplayStep& step : plan.ranks.at(rank).steps) {
    const auto busy = std::chrono::duration_cast<microseconds>(step.busy).count();
    text += fmt::format("{}{}{} {}", text.empty() ? "" : ", ", busy > 0 ? fmt::format("+{} ", busy) : "",
                        step.kind == ReplayStep::Kind::issue ? "issue" : "wait", step.call);
  }
  return text;
}

ReplayPlan planned(const Trace& trace, const ReplaySelection& selection = {}) {
  Result<ReplayPlan> plan = replay_plan(trace, selection);
  EXPECT_TRUE(plan) << plan.error().message;
  return plan ? std::move(*plan) : ReplayPlan();
}

std::string refusal(const Trace& trace, const ReplaySelection& selection = {}) {
  const Result<ReplayPlan> plan = replay_plan(trace, selection);
  return plan ? "" : plan.error().message;
}

TEST(ReplayPlan, ABlockingCallIsFollowedByItsGap) {
  ReplayJob job(1);
  job.all_reduce(0, {0}, 8, {{10, 15}});
  job.all_reduce(0, {0}, 8, {{18, 20}});
  EXPECT_EQ(steps_text(planned(job.trace), 0), "issue 0, wait 0, +3 issue 1, wait 1");
}

TEST(ReplayPlan, CallsInFlightStayInFlight) {
  ReplayJob job(1);
  job.all_reduce(0, {0}, 8, {{0, 15}});
  job.all_reduce(0, {0}, 8, {{4, 12}});
  job.all_reduce(0, {0}, 8, {{20, 21}});
  EXPECT_EQ(steps_text(planned(job.trace), 0), "issue 0, +4 issue 1, wait 1, wait 0, +5 issue 2, wait 2");
}

// The rank computed when the call ended, so that it did not wait for it: its next call came 20 after its
// issue.
TEST(ReplayPlan, ACallThatEndedUnnoticedHoldsUpNothing) {
  ReplayJob job(1);
  job.all_reduce(0, {0}, 8, {{0, 6}});
  job.compute(0, 1, 19);
  job.all_reduce(0, {0}, 8, {{20, 21}});
  EXPECT_EQ(steps_text(planned(job.trace), 0), "issue 0, +20 wait 0, issue 1, wait 1");
}

// It computed from 1 to 4 and then waited.
TEST(ReplayPlan, ComputingBeforeAWaitIsKept) {
  ReplayJob job(1);
  job.all_reduce(0, {0}, 8, {{0, 10}});
  job.compute(0, 1, 4);
  job.compute(0, 10, 12);
  job.all_reduce(0, {0}, 8, {{12, 13}});
  EXPECT_EQ(steps_text(planned(job.trace), 0), "issue 0, +3 wait 0, +2 issue 1, wait 1");
}

TEST(ReplayPlan, RanksBeginTogetherAsInTheTrace) {
  ReplayJob job(2);
  job.all_reduce(0, {0, 1}, 8, {{100, 109}});
  job.all_reduce(1, {0, 1}, 8, {{107, 109}});
  const ReplayPlan plan = planned(job.trace);
  EXPECT_EQ(steps_text(plan, 0), "issue 0, wait 0");
  EXPECT_EQ(steps_text(plan, 1), "+7 issue 0, wait 0");
  EXPECT_EQ(plan.ranks[1].calls[0].issued, microseconds(7));
}

TEST(ReplayPlan, ClocksThatStandApartByMoreThanTheJobAreNotCompared) {
  ReplayJob job(2);
  constexpr std::int64_t k_hour = 3'600'000'000;
  job.all_reduce(0, {0, 1}, 8, {{0, 5}});
  job.all_reduce(1, {0, 1}, 8, {{k_hour, k_hour + 5}});
  EXPECT_EQ(steps_text(planned(job.trace), 1), "issue 0, wait 0");
}

TEST(ReplayPlan, WithoutTimesEachCallIsWaitedForAtOnce) {
  ReplayJob job(1);
  job.all_reduce(0, {0}, 8);
  job.all_reduce(0, {0}, 8);
  const ReplayPlan plan = planned(job.trace);
  EXPECT_FALSE(plan.has_times);
  EXPECT_EQ(steps_text(plan, 0), "issue 0, wait 0, issue 1, wait 1");
}

TEST(ReplayPlan, GroupsOfDisjointRanksAreMadeInOneSplit) {
  ReplayJob job(4);
  for (const std::int64_t rank : {0, 1, 2, 3}) {
    job.all_reduce(rank, rank < 2 ? std::vector<std::int64_t>{0, 1} : std::vector<std::int64_t>{2, 3}, 8);
    job.all_reduce(rank, rank % 2 == 0 ? std::vector<std::int64_t>{0, 2} : std::vector<std::int64_t>{1, 3},
                   8);
  }
  const ReplayPlan plan = planned(job.trace);
  EXPECT_EQ(plan.groups.size(), 4U);
  EXPECT_EQ(plan.splits, 2U);
}

TEST(ReplayPlan, BuffersTakeTheLargestSetInUse) {
  ReplayJob job(1);
  job.all_reduce(0, {0}, 1000, {{0, 1}});
  job.add(0, CommKind::all_gather, {0}, 500, 500, {{2, 9}});
  job.all_reduce(0, {0}, 250, {{3, 8}});
  job.all_reduce(0, {0}, 1000, {{10, 11}});
  // In use at once: 500 + 500 and 250 elements of 4 bytes, in lines of 64 bytes: 2 x 2,048 and 1,024 bytes.
  // The last call's 4,032 bytes fit in as well.
  EXPECT_EQ(planned(job.trace).ranks[0].pool.value, 2 * 2048 + 1024);
}

TEST(ReplayPlan, RefusesARankThatIsMissing) {
  ReplayJob job(2);
  job.all_reduce(0, {0, 1, 2}, 8);
  job.all_reduce(1, {0, 1, 2}, 8);
  EXPECT_EQ(
      refusal(job.trace),
      "all_reduce of rank 0, iteration 0: its group has rank 2, and the trace the calls of ranks 0 to 1 "
      "alone; import the files of all ranks together");
  job.trace.provenance.job_ranks = 4;
  EXPECT_EQ(
      refusal(job.trace),
      "the trace lacks ranks 2, 3 of its 4; a replay needs the calls of all ranks: import or record them "
      "together");
}

TEST(ReplayPlan, RefusesHalfAGroup) {
  ReplayJob job(2);
  job.all_reduce(0, {0, 1}, 8);
  job.all_reduce(1, {0, 1}, 8);
  job.all_reduce(1, {0, 1}, 8);
  EXPECT_EQ(
      refusal(job.trace),
      "rank 0 makes 1 calls on the dp group of 2 ranks (0, 1), on which rank 1 makes 2; a replay needs the "
      "calls of all ranks");
}

TEST(ReplayPlan, RefusesCallsOfAGroupThatDiffer) {
  ReplayJob job(2);
  job.all_reduce(0, {0, 1}, 8);
  job.all_reduce(1, {0, 1}, 16);
  EXPECT_EQ(
      refusal(job.trace),
      "call 0 on the dp group of 2 ranks (0, 1) is all_reduce of 32 B fp32 on rank 0, and all_reduce of 64 B "
      "fp32 on rank 1; the calls of a group must be the same in the same order");
}

TEST(ReplayPlan, RefusesAMessageThatNobodyReceives) {
  ReplayJob job(2);
  job.send(0, 1, 8);
  EXPECT_EQ(
      refusal(job.trace),
      "rank 0 sends 1 messages to rank 1, which receives 0 of them; a replay needs the calls of all ranks");
}

TEST(ReplayPlan, RefusesRanksThatBothReceiveFirst) {
  ReplayJob job(2);
  for (const std::int64_t rank : {0, 1}) {
    job.recv(rank, 1 - rank, 8, {{0, 5}});
    job.send(rank, 1 - rank, 8, {{6, 7}});
  }
  EXPECT_EQ(
      refusal(job.trace),
      "a replay would never end: rank 0 waits for its recv of 32 B fp32 (call 0), which needs rank 1; rank 1 "
      "waits for its recv of 32 B fp32 (call 0), which needs rank 0");
  for (RankStream& stream : job.trace.streams) {
    stream.times.clear();
  }
  EXPECT_NE(refusal(job.trace), "");
}

TEST(ReplayPlan, RefusesGroupsInOppositeOrders) {
  ReplayJob job(2);
  const auto on = [&](std::int64_t rank, Axis axis) {
    job.add(rank, {.kind = CommKind::all_reduce,
                   .dtype = DType::fp32,
                   .group = job.trace.groups.intern({Rank{0}, Rank{1}}, axis),
                   .input = Elements{8},
                   .output = Elements{8}});
  };
  on(0, Axis::dp);
  on(0, Axis::tp);
  on(1, Axis::tp);
  on(1, Axis::dp);
  EXPECT_NE(refusal(job.trace).find("a replay would never end: rank 0 waits for its all_reduce"),
            std::string::npos);
}

// A prediction does not say what is issued in one batch.
TEST(ReplayPlan, PredictedRanksThatBothReceiveFirstWaitLater) {
  ReplayJob job(2);
  job.trace.provenance.source = Source::predicted;
  for (const std::int64_t rank : {0, 1}) {
    job.recv(rank, 1 - rank, 8);
    job.send(rank, 1 - rank, 8);
  }
  const ReplayPlan plan = planned(job.trace);
  EXPECT_EQ(steps_text(plan, 0), "issue 0, issue 1, wait 0, wait 1");
  EXPECT_EQ(plan.later_waits, 2);
}

TEST(ReplayPlan, LateWaitsAreAChoiceForOtherTraces) {
  ReplayJob job(2);
  for (const std::int64_t rank : {0, 1}) {
    job.recv(rank, 1 - rank, 8);
    job.send(rank, 1 - rank, 8);
  }
  EXPECT_EQ(planned(job.trace, {.iterations = {}, .skip_other = false, .late_waits = true}).later_waits, 2);
}

// As over a library that buffers small messages.
TEST(ReplayPlan, RanksThatBothSendFirstWaitForTheirSendsLater) {
  ReplayJob job(2);
  for (const std::int64_t rank : {0, 1}) {
    job.send(rank, 1 - rank, 8, {{0, 1}});
    job.recv(rank, 1 - rank, 8, {{2, 3}});
  }
  EXPECT_EQ(steps_text(planned(job.trace), 0), "issue 0, +1 issue 1, wait 0, wait 1");
}

TEST(ReplayPlan, RefusesWhatATraceDoesNotSay) {
  ReplayJob other(1);
  other.add(0, {.kind = CommKind::other, .name = other.trace.names.intern("MPI_Scan")});
  EXPECT_EQ(refusal(other.trace),
            "other of rank 0, iteration 0: no transport makes MPI_Scan; --skip-other leaves such calls out");
  ReplayJob hidden(1);
  hidden.add(0, {.kind = CommKind::barrier, .group = hidden.trace.groups.intern_hidden(4, "comm")});
  EXPECT_NE(refusal(hidden.trace).find("does not say which 4 ranks its group has"), std::string::npos);
  ReplayJob log(1);
  log.all_reduce(0, {0}, 8);
  log.trace.provenance.accounting = Accounting::comms_logger;
  EXPECT_NE(refusal(log.trace).find("a printed log"), std::string::npos);
}

TEST(ReplayPlan, RefusesMessagesThatStayOnTheirRank) {
  ReplayJob job(1);
  job.send(0, 0, 8);
  EXPECT_EQ(refusal(job.trace),
            "send of rank 0, iteration 0: it stays on its rank, and no transport carries such messages");
}

TEST(ReplayPlan, SkipsOtherCallsAndCountsThem) {
  ReplayJob job(1);
  job.add(0, {.kind = CommKind::other, .name = job.trace.names.intern("MPI_Scan")});
  job.all_reduce(0, {0}, 8);
  const ReplayPlan plan = planned(job.trace, {.iterations = {}, .skip_other = true});
  EXPECT_EQ(plan.skipped_other, 1);
  EXPECT_EQ(plan.calls(), 1);
}

// 3 elements of each of 2 ranks, at rank 1; another tool's sizes say nothing of the parts.
TEST(ReplayPlan, MakesGatherWhereItsSizesSayWhich) {
  ReplayJob job(2);
  const auto gather = [&](std::int64_t rank, std::int64_t output) {
    job.add(rank, {.kind = CommKind::other,
                   .dtype = DType::fp32,
                   .group = job.trace.groups.intern({Rank{0}, Rank{1}}, Axis::dp),
                   .input = Elements{3},
                   .output = Elements{output},
                   .root = GroupRank{1},
                   .name = job.trace.names.intern("MPI_Gather")});
  };
  gather(0, 0);
  gather(1, 6);
  const ReplayPlan plan = planned(job.trace, {.iterations = {}, .skip_other = true});
  EXPECT_EQ(plan.skipped_other, 0);
  EXPECT_EQ(plan.ranks[0].ops[0].call.other, OtherCall::gather);
  EXPECT_EQ(plan.ranks[1].ops[0].call.peer, GroupRank{1});
  gather(0, 3);
  gather(1, 3);
  EXPECT_EQ(
      refusal(job.trace),
      "other of rank 0, iteration 0: its MPI_Gather of 3 elements each has 3 at another one of 2 ranks, "
      "not 0; --skip-other leaves such calls out");
  EXPECT_EQ(planned(job.trace, {.iterations = {}, .skip_other = true}).skipped_other, 2);
}

// Ranks give 3 and 5 elements to rank 1, which has 8.
TEST(ReplayPlan, MakesGatherAndScatterOfUnequalParts) {
  for (const bool gathers : {true, false}) {
    const auto refusal_or_plan = [&](std::int64_t whole) {
      ReplayJob job(2);
      for (const std::int64_t rank : {0, 1}) {
        const Elements all{rank == 1 ? whole : 0};
        const Elements part{3 + 2 * rank};
        job.add(rank, {.kind = CommKind::other,
                       .dtype = DType::fp32,
                       .group = job.trace.groups.intern({Rank{0}, Rank{1}}, Axis::dp),
                       .input = gathers ? part : all,
                       .output = gathers ? all : part,
                       .root = GroupRank{1},
                       .name = job.trace.names.intern(gathers ? "MPI_Gatherv" : "MPI_Iscatterv")});
      }
      if (whole != 8) {
        return refusal(job.trace);
      }
      const ReplayPlan plan = planned(job.trace);
      for (const RankProgram& rank : plan.ranks) {
        const CommCall& call = rank.ops[rank.calls[0].op].call;
        const std::span<const Elements> parts = gathers ? call.output_parts : call.input_parts;
        EXPECT_EQ(std::vector(parts.begin(), parts.end()), (std::vector<Elements>{{3}, {5}}));
        EXPECT_EQ(call.other, gathers ? OtherCall::gather : OtherCall::scatter);
      }
      return std::string();
    };
    EXPECT_EQ(refusal_or_plan(8), "");
    EXPECT_NE(refusal_or_plan(9).find("have 8 elements, its root 9; the sizes do not fit together"),
              std::string::npos)
        << refusal_or_plan(9);
  }
}

// Rank 0 scatters before it gathers, rank 1 the other way round, on communicators of their own.
TEST(ReplayPlan, RefusesGatherAndScatterInOppositeOrders) {
  ReplayJob job(2);
  const auto add = [&](std::int64_t rank, bool gathers) {
    const bool is_root = rank == 0;
    const Elements all{is_root ? 6 : 0};
    job.add(rank, {.kind = CommKind::other,
                   .dtype = DType::fp32,
                   .group = job.trace.groups.intern({Rank{0}, Rank{1}}, gathers ? Axis::dp : Axis::tp),
                   .input = gathers ? Elements{3} : all,
                   .output = gathers ? all : Elements{3},
                   .root = GroupRank{0},
                   .name = job.trace.names.intern(gathers ? "gather" : "scatter")});
  };
  add(0, false);
  add(0, true);
  add(1, true);
  add(1, false);
  EXPECT_EQ(
      refusal(job.trace),
      "a replay would never end: rank 0 waits for its scatter of 12 B fp32 (call 0), which needs rank 1; "
      "rank 1 waits for its gather of 12 B fp32 (call 0), which needs rank 0");
}

// As programs do that match by tags.
TEST(ReplayPlan, MessagesOfTwoSizesMayBeReceivedInAnotherOrder) {
  ReplayJob job(2);
  job.send(0, 1, 8, {{0, 9}});
  job.send(0, 1, 16, {{1, 9}});
  job.recv(1, 0, 16, {{0, 9}});
  job.recv(1, 0, 8, {{1, 9}});
  const ReplayPlan plan = planned(job.trace);
  EXPECT_EQ(plan.groups.size(), 2U);
  EXPECT_EQ(plan.ranks[0].calls[0].meeting, plan.ranks[1].calls[1].meeting);
}

TEST(ReplayPlan, RefusesMessagesOfOtherSizes) {
  ReplayJob job(2);
  job.send(0, 1, 8);
  job.recv(1, 0, 16);
  EXPECT_EQ(
      refusal(job.trace),
      "message 0 from rank 0 to rank 1 is a send of 32 B fp32, and its receive a recv of 64 B fp32; messages "
      "that are received out of order cannot be replayed");
}

TEST(ReplayPlan, BlocksOnlyWhereAllRanksOfACallDo) {
  ReplayJob job(2);
  job.all_reduce(0, {0, 1}, 8, {{0, 5}});
  job.all_reduce(1, {0, 1}, 8, {{0, 5}});
  job.all_reduce(0, {0, 1}, 8, {{6, 9}});
  job.all_reduce(1, {0, 1}, 8, {{6, 9}});
  job.all_reduce(0, {0, 1}, 8, {{10, 12}});
  job.all_reduce(1, {0, 1}, 8, {{8, 12}});
  const ReplayPlan plan = planned(job.trace);
  for (const RankProgram& rank : plan.ranks) {
    EXPECT_TRUE(rank.calls[0].blocks);
    EXPECT_FALSE(rank.calls[1].blocks);  // of rank 1 still under way when it issues the next one
  }
}

TEST(ReplayPlan, AllGathersOfUnequalShardsHaveTheirSizes) {
  ReplayJob job(2);
  job.add(0, CommKind::all_gather, {0, 1}, 3, 8);
  job.add(1, CommKind::all_gather, {0, 1}, 5, 8);
  const ReplayPlan plan = planned(job.trace);
  for (const RankProgram& rank : plan.ranks) {
    const std::span<const Elements> parts = rank.ops[rank.calls[0].op].call.output_parts;
    EXPECT_EQ(std::vector(parts.begin(), parts.end()), (std::vector<Elements>{{3}, {5}}));
  }
}

TEST(ReplayPlan, UnequalExchangesShareTheirSums) {
  ReplayJob job(2);
  job.add(0, CommKind::all_to_all, {0, 1}, 6, 4);
  job.add(1, CommKind::all_to_all, {0, 1}, 2, 4);
  const ReplayPlan plan = planned(job.trace);
  EXPECT_EQ(plan.shared_sizes, 2);
  // 6 x 4/8, 2 x 4/8
  const CommCall& first = plan.ranks[0].ops[plan.ranks[0].calls[0].op].call;
  EXPECT_EQ(std::vector(first.input_parts.begin(), first.input_parts.end()),
            (std::vector<Elements>{{3}, {3}}));
  EXPECT_EQ(std::vector(first.output_parts.begin(), first.output_parts.end()),
            (std::vector<Elements>{{3}, {1}}));
}

TEST(SharedParts, AddUpWhateverTheirRounding) {
  const std::vector<Elements> sent = {{5}, {0}, {7}, {1}};
  const std::vector<Elements> received = {{1}, {9}, {2}, {1}};
  const std::vector<std::vector<Elements>> rows = shared_parts(sent, received);
  std::vector<Elements> columns(4);
  for (std::size_t from = 0; from < 4; ++from) {
    std::int64_t row = 0;
    for (std::size_t to = 0; to < 4; ++to) {
      EXPECT_GE(rows[from][to].value, 0);
      row += rows[from][to].value;
      columns[to].value += rows[from][to].value;
    }
    EXPECT_EQ(row, sent[from].value);
  }
  EXPECT_EQ(columns, received);
}

}  // namespace
}  // namespace commlens::bench
