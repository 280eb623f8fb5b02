#include "commlens/formats/io/schedule.hpp"

#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace commlens::formats {
namespace {

using std::chrono::nanoseconds;

/// Calls of ranks from 0 on, each with its start and end.
class Job {
 public:
  void send(std::int64_t from, std::int64_t to, std::int64_t bytes, std::pair<int, int> when) {
    add(from, {.kind = CommKind::send, .group = pair(from, to), .input = Elements{bytes}}, when);
  }
  void receive(std::int64_t to, std::int64_t from, std::int64_t bytes, std::pair<int, int> when) {
    add(to, {.kind = CommKind::recv, .group = pair(from, to), .output = Elements{bytes}}, when);
  }
  void all_reduce(std::int64_t rank, const std::vector<Rank>& members, std::pair<int, int> when) {
    add(rank,
        {.kind = CommKind::all_reduce,
         .group = trace.groups.intern(members),
         .input = Elements{8},
         .output = Elements{8}},
        when);
  }

  Trace trace;

 private:
  GroupId pair(std::int64_t from, std::int64_t to) { return trace.groups.intern({Rank{from}, Rank{to}}); }
  void add(std::int64_t rank, CommOp op, std::pair<int, int> when) {
    while (trace.ranks() <= rank) {
      const Rank next{trace.ranks()};
      trace.streams.push_back({{next, next}, {}, {}, {}});
    }
    RankStream& stream = trace.streams[static_cast<std::size_t>(rank)];
    stream.events.push_back({trace.intern(op), 0, k_no_micro_batch});
    if (when != untimed) {
      stream.times.push_back({nanoseconds(when.first), nanoseconds(when.first), nanoseconds(when.second)});
    }
  }

 public:
  static constexpr std::pair<int, int> untimed{-1, -1};
};

std::vector<std::uint32_t> waits_of(const CallSchedule& schedule, std::int64_t rank) {
  const RankStream& stream = *schedule.trace().stream_of(Rank{rank});
  std::vector<std::uint32_t> waits;
  ScheduledRank calls(schedule, stream, Rank{rank});
  for (ScheduledCall call; calls.next(call);) {
    waits.push_back(call.waited_at);
  }
  return waits;
}

std::vector<std::uint32_t> tags_of(const CallSchedule& schedule, std::int64_t rank) {
  const RankStream& stream = *schedule.trace().stream_of(Rank{rank});
  std::vector<std::uint32_t> tags;
  ScheduledRank calls(schedule, stream, Rank{rank});
  for (ScheduledCall call; calls.next(call);) {
    tags.push_back(call.tag);
  }
  return tags;
}

using Numbers = std::vector<std::uint32_t>;
constexpr std::uint32_t k_never = CallOrder::k_never;

TEST(CallOrder, ACallIsWaitedForByTheFirstThatStartsBehindItsEnd) {
  RankStream stream;
  stream.events.resize(4);
  for (const auto& [start, end] :
       {std::pair(0, 30), std::pair(10, 20), std::pair(20, 25), std::pair(40, 50)}) {
    stream.times.push_back({nanoseconds(start), nanoseconds(start), nanoseconds(end)});
  }
  const CallOrder order(stream);
  EXPECT_EQ(order.waited_at(0), 3U);
  EXPECT_EQ(order.waited_at(1), 2U);  // in the same moment
  EXPECT_EQ(order.waited_at(2), 3U);
  EXPECT_EQ(order.waited_at(3), k_never);
}

TEST(CallOrder, IsThatOfTheStartsAndWithoutTimesThatOfTheRows) {
  RankStream stream;
  stream.events.resize(2);
  EXPECT_EQ(CallOrder(stream).row(0), 0U);
  EXPECT_EQ(CallOrder(stream).waited_at(0), 1U);
  EXPECT_EQ(CallOrder(stream).waited_at(1), k_never);
  stream.times = {{nanoseconds(7), nanoseconds(7), nanoseconds(8)},
                  {nanoseconds(3), nanoseconds(3), nanoseconds(9)}};
  EXPECT_EQ(CallOrder(stream).row(0), 1U);
  EXPECT_EQ(CallOrder(stream).row(1), 0U);
}

// Two messages of one size; the receive posted second is the first that is waited for, so it takes the first.
TEST(CallSchedule, TheReceiveThatIsWaitedForFirstTakesTheFirstMessage) {
  Job job;
  job.send(0, 1, 5, {0, 1});
  job.send(0, 1, 5, {10, 11});
  job.receive(1, 0, 5, {0, 20});
  job.receive(1, 0, 5, {1, 5});
  job.send(1, 0, 1, {6, 7});
  job.receive(0, 1, 1, {2, 9});
  const CallSchedule schedule(job.trace);
  EXPECT_EQ(schedule.mismatch(), std::nullopt);
  EXPECT_EQ(tags_of(schedule, 0), (Numbers{1, 0, 2}));  // by start: send, receive, send
  EXPECT_EQ(tags_of(schedule, 1), (Numbers{2, 1, 0}));
}

TEST(CallSchedule, MessagesOfTwoSizesGoToReceivesOfTheirs) {
  Job job;
  job.send(0, 1, 9, {0, 1});
  job.send(0, 1, 5, {2, 3});
  job.receive(1, 0, 5, {0, 8});
  job.receive(1, 0, 9, {9, 10});
  const CallSchedule schedule(job.trace);
  EXPECT_EQ(tags_of(schedule, 0), (Numbers{1, 2}));
  EXPECT_EQ(tags_of(schedule, 1), (Numbers{2, 1}));
}

TEST(CallSchedule, SizesThatTheSidesTellDifferentlyAreTheSenders) {
  Job job;
  job.send(0, 1, 9, {0, 1});
  job.receive(1, 0, 5, {0, 8});
  const CallSchedule schedule(job.trace);
  EXPECT_EQ(schedule.pairs().at(0).bytes(0, 5), 9);
  EXPECT_EQ(tags_of(schedule, 1), Numbers{0});
}

// Frameworks that issue both in one batch, seen without times: each would wait for the other's send.
TEST(CallSchedule, NeighboursThatBothReceiveFirstSendBeforeTheyWait) {
  Job job;
  for (const std::int64_t rank : {0, 1}) {
    job.receive(rank, 1 - rank, 4, Job::untimed);
    job.send(rank, 1 - rank, 4, Job::untimed);
    job.all_reduce(rank, {Rank{0}, Rank{1}}, Job::untimed);
  }
  const CallSchedule schedule(job.trace);
  EXPECT_EQ(waits_of(schedule, 0), (Numbers{2, 2, k_never}));
  EXPECT_EQ(waits_of(schedule, 1), (Numbers{2, 2, k_never}));
  EXPECT_EQ(schedule.relaxed_waits(), 2);
}

// Rank 0 starts a collective, sends, and waits; rank 1 joins it when the message has come.
TEST(CallSchedule, ACollectiveLetsAMessagePassThatAnotherMemberNeeds) {
  Job job;
  const std::vector<Rank> both = {Rank{0}, Rank{1}};
  job.all_reduce(0, both, {0, 30});
  job.send(0, 1, 4, {10, 11});
  job.receive(1, 0, 4, {0, 15});
  job.all_reduce(1, both, {20, 30});
  const CallSchedule schedule(job.trace);
  ASSERT_NE(schedule.let_pass(Rank{0}, 0), nullptr);
  EXPECT_EQ(*schedule.let_pass(Rank{0}, 0), Numbers{1});
  EXPECT_EQ(schedule.let_pass(Rank{1}, 1), nullptr);
  EXPECT_EQ(schedule.relaxed_waits(), 0);
}

TEST(CallSchedule, CallsThatOverlapOnOneGroupHaveTagsOfTheirOwn) {
  Job job;
  const std::vector<Rank> both = {Rank{0}, Rank{1}};
  for (const std::int64_t rank : {0, 1}) {
    job.all_reduce(rank, both, {0, 30});
    job.all_reduce(rank, both, {10, 40});
  }
  EXPECT_EQ(tags_of(CallSchedule(job.trace), 0), (Numbers{1, 2}));
  Job calm;
  for (const std::int64_t rank : {0, 1}) {
    calm.all_reduce(rank, both, {0, 30});
    calm.all_reduce(rank, both, {30, 40});
  }
  EXPECT_EQ(tags_of(CallSchedule(calm.trace), 0), (Numbers{1, 1}));
}

TEST(CallSchedule, SaysWhyCallsDoNotBelongTogether) {
  Job job;
  job.send(0, 1, 9, {0, 1});
  job.receive(1, 0, 9, {0, 8});
  job.receive(1, 0, 9, {9, 10});
  EXPECT_EQ(CallSchedule(job.trace).mismatch(),
            "rank 0 sends 1 messages to rank 1, which receives 2 of them");
  Job partial;
  partial.all_reduce(0, {Rank{0}, Rank{1}}, {0, 1});
  EXPECT_EQ(CallSchedule(partial.trace).mismatch(),
            "rank 0 makes 1 calls on a group of 2 ranks on which rank 1 makes 0");
}

}  // namespace
}  // namespace commlens::formats
