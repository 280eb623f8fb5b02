// When a replay issues its calls, on a clock that moves only while a rank waits or keeps busy.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "commlens/bench/replay_plan.hpp"
#include "commlens/bench/replay_run.hpp"
#include "commlens/bench/replay_test_job.hpp"

namespace commlens::bench {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using test_support::ReplayJob;
using test_support::When;

/// What happened on a clock that tests move.
struct ToldTime {
  std::int64_t now_ns = 0;
  std::vector<nanoseconds> issues;  // of calls but barriers
};

class ToldWork final : public Work {
 public:
  ToldWork(ToldTime& time, std::int64_t end_ns) : time_(time), end_ns_(end_ns) {}
  void wait() override { time_.now_ns = std::max(time_.now_ns, end_ns_); }
  bool is_complete() override { return time_.now_ns >= end_ns_; }

 private:
  ToldTime& time_;
  std::int64_t end_ns_;
};

/// Rank 0 among others that are always ready: each of its calls but barriers takes `delay`.
class ToldNetwork final : public Communicator {
 public:
  ToldNetwork(ToldTime& time, nanoseconds delay, std::vector<Rank> members)
      : time_(time), delay_(delay), members_(std::move(members)) {}
  const std::vector<Rank>& members() const override { return members_; }
  GroupRank rank() const override { return GroupRank{0}; }
  std::unique_ptr<Work> start(const CommCall& call) override {
    const bool counts = call.kind != CommKind::barrier;
    if (counts) {
      time_.issues.emplace_back(time_.now_ns);
    }
    return std::make_unique<ToldWork>(time_, time_.now_ns + (counts ? delay_.count() : 0));
  }
  std::unique_ptr<Communicator> split(std::int64_t, std::int64_t) override {
    return std::make_unique<ToldNetwork>(time_, delay_, members_);
  }
  void abort(std::string_view reason) override { FAIL() << reason; }

 private:
  ToldTime& time_;
  nanoseconds delay_;
  std::vector<Rank> members_;
};

struct ToldReplay {
  nanoseconds duration{};
  std::vector<nanoseconds> issues;
};

/// What rank 0 of 2 does; each of its calls takes `delay`.
ToldReplay told_replay(const ReplayJob& job, PlayOptions options, nanoseconds delay = {}) {
  const ReplayPlan plan = replay_plan(job.trace, {}).value();
  ToldTime time;
  ToldNetwork world(time, delay, {Rank{0}, Rank{1}});
  options.clock =
      ReplayClock{.now_ns = [&] { return time.now_ns; },
                  .stay_until = [&](std::int64_t end_ns) { time.now_ns = std::max(time.now_ns, end_ns); }};
  ReplayRank rank(plan, world);
  const nanoseconds duration = rank.play(options);
  return {duration, time.issues};
}

/// Calls that take no time, each waited for at once, every `step`.
ReplayJob told_chain(int calls, microseconds step) {
  ReplayJob job(2);
  for (int call = 0; call < calls; ++call) {
    for (const std::int64_t rank : {0, 1}) {
      job.all_reduce(rank, {0, 1}, 4, When{call * step.count(), call * step.count()});
    }
  }
  return job;
}

/// 0, `step`, 2 `step`, …
std::vector<nanoseconds> every(nanoseconds step, int calls) {
  std::vector<nanoseconds> times;
  for (int call = 0; call < calls; ++call) {
    times.push_back(step * call);
  }
  return times;
}

// 100 gaps of 1 ms.
TEST(ReplayPace, TakesAsLongAsItsGaps) {
  const ReplayJob job = told_chain(101, milliseconds(1));
  for (const ReplayPace pace : {ReplayPace::gaps, ReplayPace::timed}) {
    const ToldReplay again = told_replay(job, {.pace = pace});
    EXPECT_EQ(again.duration, milliseconds(100));
    EXPECT_EQ(again.issues, every(milliseconds(1), 101));
  }
}

TEST(ReplayPace, ScalesAndLeavesOutGaps) {
  const ReplayJob job = told_chain(21, milliseconds(2));
  EXPECT_EQ(told_replay(job, {.scale_compute = 2.0}).duration, milliseconds(80));
  EXPECT_EQ(told_replay(job, {.scale_compute = 0.5}).duration, milliseconds(20));
  EXPECT_EQ(told_replay(job, {.pace = ReplayPace::timed, .scale_compute = 0.5}).duration, milliseconds(20));
  EXPECT_EQ(told_replay(job, {.pace = ReplayPace::back_to_back}).duration, nanoseconds(0));
}

// Calls that take 5 ms more, 5 ms apart: closed, each is 5 ms later than the one before; open, there was
// time.
TEST(ReplayPace, AClosedLoopFeelsASlowNetworkAndAnOpenOneHasTime) {
  const ReplayJob job = told_chain(20, milliseconds(5));
  EXPECT_EQ(told_replay(job, {}, milliseconds(5)).issues, every(milliseconds(10), 20));
  EXPECT_EQ(told_replay(job, {.pace = ReplayPace::timed}, milliseconds(5)).issues,
            every(milliseconds(5), 20));
}

// Where a call takes longer than until the next one, even an open loop is late: by 3 ms more with each call.
TEST(ReplayPace, AnOpenLoopLagsBehindADenseTrace) {
  const ReplayJob dense = told_chain(20, milliseconds(2));
  EXPECT_EQ(told_replay(dense, {.pace = ReplayPace::timed}, milliseconds(5)).issues,
            every(milliseconds(5), 20));
}

// 20 calls, 1 us apart, are issued before the first one is waited for: the delay of 20 ms counts once, from
// the last issue.
TEST(ReplayPace, KeepsCallsInFlight) {
  ReplayJob job(2);
  for (int call = 0; call < 20; ++call) {
    for (const std::int64_t rank : {0, 1}) {
      job.all_reduce(rank, {0, 1}, 4, When{call, 1000});
    }
  }
  const ToldReplay again = told_replay(job, {}, milliseconds(20));
  EXPECT_EQ(again.issues, every(microseconds(1), 20));
  EXPECT_EQ(again.duration, milliseconds(20) + microseconds(19));
}

}  // namespace
}  // namespace commlens::bench
