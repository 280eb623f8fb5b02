#include "commlens/bench/replay_run.hpp"

#include <algorithm>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "commlens/base/result.hpp"
#include "commlens/bench/replay_plan.hpp"
#include "commlens/bench/replay_test_job.hpp"
#include "commlens/trace/clock.hpp"
#include "commlens/trace/test_support.hpp"
#include "commlens/trace/trace_file.hpp"
#include "commlens/transport/comm_recording.hpp"
#include "commlens/transport/thread_ranks.hpp"

namespace commlens::bench {
namespace {

using commlens::test_support::ScratchDirectory;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using test_support::ReplayJob;
using test_support::When;

/// A call that is complete no earlier than at `end`.
class SlowCallWork final : public Work {
 public:
  SlowCallWork(std::unique_ptr<Work> work, std::int64_t end_ns) : work_(std::move(work)), end_ns_(end_ns) {}
  void wait() override {
    work_->wait();
    const std::int64_t left = end_ns_ - Clock::of_process().now_ns();
    if (left > 0) {
      std::this_thread::sleep_for(nanoseconds(left));
    }
  }
  bool is_complete() override { return work_->is_complete() && Clock::of_process().now_ns() >= end_ns_; }

 private:
  std::unique_ptr<Work> work_;
  std::int64_t end_ns_;
};

/// A network on which each call takes `delay` longer; calls in flight at once do not add up.
class SlowNetwork final : public Communicator {
 public:
  SlowNetwork(std::unique_ptr<Communicator> fast, nanoseconds delay)
      : fast_(std::move(fast)), delay_(delay) {}
  const std::vector<Rank>& members() const override { return fast_->members(); }
  GroupRank rank() const override { return fast_->rank(); }
  std::unique_ptr<Work> start(const CommCall& call) override {
    const std::int64_t end_ns = Clock::of_process().now_ns() + delay_.count();
    return std::make_unique<SlowCallWork>(fast_->start(call), end_ns);
  }
  std::unique_ptr<Communicator> split(std::int64_t color, std::int64_t key) override {
    std::unique_ptr<Communicator> made = fast_->split(color, key);
    return made == nullptr ? nullptr : std::make_unique<SlowNetwork>(std::move(made), delay_);
  }
  void abort(std::string_view reason) override { fast_->abort(reason); }

 private:
  std::unique_ptr<Communicator> fast_;
  nanoseconds delay_;
};

/// The recording of a replay; each call takes `delay` longer than over threads.
Trace replayed(const Trace& trace, const PlayOptions& options, nanoseconds delay = {}) {
  const ScratchDirectory directory;
  const std::filesystem::path path = directory / "t";
  const Result<ReplayPlan> plan = replay_plan(trace, {});
  if (!plan) {
    ADD_FAILURE() << plan.error().message;
    return {};
  }
  create_recording(path, {.producer = "test",
                          .description = "",
                          .framework = "",
                          .ranks = static_cast<std::int64_t>(plan->ranks.size()),
                          .compute = true,
                          .progress = {},
                          .is_replay = true});
  run_thread_ranks(static_cast<std::int64_t>(plan->ranks.size()), [&](std::unique_ptr<Communicator> world) {
    Recorder recorder(path, Rank{world->rank().value}, {.parts = RecorderParts::calls_and_compute});
    SlowNetwork slow(std::move(world), delay);
    ReplayRank rank(*plan, slow);
    rank.play(options, recorder);
  });
  finish_recording(path);
  Result<Trace> recording = read_trace(path);
  EXPECT_TRUE(recording) << recording.error().message;
  return recording ? std::move(*recording) : Trace();
}

/// From the first call of any rank to the end of the last.
nanoseconds makespan_of(const Trace& trace) {
  nanoseconds first = nanoseconds::max();
  nanoseconds last = nanoseconds::min();
  for (const RankStream& stream : trace.streams) {
    for (const Times& times : stream.times) {
      first = std::min(first, times.issued);
      last = std::max(last, times.finished);
    }
  }
  return last - first;
}

/// How much later than `step` after the call before the calls of rank 0 were issued, at the last call.
nanoseconds last_lag(const Trace& trace, nanoseconds step) {
  const std::vector<Times>& times = trace.stream_of(Rank{0})->times;
  return times.back().issued - times.front().issued - step * (static_cast<std::int64_t>(times.size()) - 1);
}

/// Calls of all ranks, each waited for at once, every `step`.
ReplayJob chain(int calls, microseconds step) {
  ReplayJob job(2);
  for (int call = 0; call < calls; ++call) {
    for (const std::int64_t rank : {0, 1}) {
      const std::int64_t at = call * step.count();
      job.all_reduce(rank, {0, 1}, 4, When{at, at});
    }
  }
  return job;
}

std::vector<std::string> spelled(const Trace& trace, std::int64_t rank) {
  std::vector<std::string> texts;
  for (const commlens::test_support::SpelledCall& call :
       commlens::test_support::spelled_calls(trace, Rank{rank})) {
    std::string text =
        fmt::format("{}{}{} {} {} -> {} root {} [", name_of(call.kind), call.name.empty() ? "" : " ",
                    call.name, name_of(call.dtype), call.input, call.output, call.root);
    for (const Rank member : call.group) {
      text += fmt::format(" {}", member.value);
    }
    texts.push_back(fmt::format("{} ] iteration {}", text, call.iteration));
  }
  return texts;
}

TEST(Replay, MakesTheCallsOfEachRankInItsOrder) {
  ReplayJob job(4);
  for (const std::int64_t rank : {0, 1, 2, 3}) {
    const std::vector<std::int64_t> half =
        rank < 2 ? std::vector<std::int64_t>{0, 1} : std::vector<std::int64_t>{2, 3};
    job.add(rank, CommKind::broadcast, {0, 1, 2, 3}, 100, 100);
    job.all_reduce(rank, half, 1000);
    job.add(rank, CommKind::all_gather, half, 10, 20);
    job.add(rank, CommKind::reduce_scatter, {0, 1, 2, 3}, 40, 10);
    job.add(rank, CommKind::all_to_all, half, 8, 8);
    if (rank < 2) {
      job.send(rank, rank + 2, 7);
    } else {
      job.recv(rank, rank - 2, 7);
    }
    job.add(rank, CommKind::reduce, {0, 1, 2, 3}, 5, 5);
    job.add(rank, CommKind::barrier, {0, 1, 2, 3}, 0, 0);
  }
  const Trace again = replayed(job.trace, {.pace = ReplayPace::back_to_back});
  EXPECT_EQ(again.provenance.source, Source::replayed);
  for (const std::int64_t rank : {0, 1, 2, 3}) {
    EXPECT_EQ(spelled(again, rank), spelled(job.trace, rank)) << "rank " << rank;
  }
}

TEST(Replay, OfUnequalPartsHasTheirSizes) {
  ReplayJob job(3);
  for (const std::int64_t rank : {0, 1, 2}) {
    const std::int64_t shard = 3 * rank;  // 0, 3, 6
    job.add(rank, CommKind::all_gather, {0, 1, 2}, shard, 9);
    job.add(rank, CommKind::reduce_scatter, {0, 1, 2}, 9, shard);
    job.add(rank, CommKind::all_to_all, {0, 1, 2}, shard, 6 - shard);
    job.add(rank, CommKind::all_to_all, {0, 1, 2}, 7, 7);
  }
  const Trace again = replayed(job.trace, {.pace = ReplayPace::back_to_back});
  for (const std::int64_t rank : {0, 1, 2}) {
    EXPECT_EQ(spelled(again, rank), spelled(job.trace, rank)) << "rank " << rank;
  }
}

// A program over threads makes them, its replay, and the replay of that.
TEST(Replay, MakesGatherAndScatterAsRecorded) {
  const ScratchDirectory directory;
  const std::filesystem::path path = directory / "t";
  create_recording(path, {.producer = "test", .description = "", .framework = "", .ranks = 3});
  run_thread_ranks(3, [&](std::unique_ptr<Communicator> own) {
    Recorder recorder(path, Rank{own->rank().value});
    CommClock clock;
    const bool is_root = own->rank() == GroupRank{2};
    const std::unique_ptr<Communicator> world = recorded(std::move(own), Axis::dp, recorder, clock);
    std::vector<float> part(5);
    std::vector<float> all(15);
    CommCall gather{.kind = CommKind::other,
                    .dtype = DType::fp32,
                    .input_buffer = part.data(),
                    .output_buffer = all.data(),
                    .input = {5},
                    .output = {is_root ? 15 : 0},
                    .peer = GroupRank{2},
                    .other = OtherCall::gather};
    CommCall scatter = gather;
    scatter.other = OtherCall::scatter;
    std::swap(scatter.input, scatter.output);
    scatter.input_buffer = all.data();
    scatter.output_buffer = part.data();
    world->run(gather);
    world->start(scatter)->wait();
  });
  finish_recording(path);
  const Trace first = read_trace(path).value();
  const Trace again = replayed(first, {.pace = ReplayPace::back_to_back});
  const Trace and_again = replayed(again, {});
  const std::vector<std::string> of_root = {"other gather fp32 5 -> 15 root 2 [ 0 1 2 ] iteration -1",
                                            "other scatter fp32 15 -> 5 root 2 [ 0 1 2 ] iteration -1"};
  const std::vector<std::string> of_another = {"other gather fp32 5 -> 0 root 2 [ 0 1 2 ] iteration -1",
                                               "other scatter fp32 0 -> 5 root 2 [ 0 1 2 ] iteration -1"};
  for (const Trace* const trace : {&first, &again, &and_again}) {
    EXPECT_EQ(spelled(*trace, 0), of_another);
    EXPECT_EQ(spelled(*trace, 1), of_another);
    EXPECT_EQ(spelled(*trace, 2), of_root);
  }
}

// Ranks give 2, 3 and 4 elements to rank 2, which has 9; the replay of the replay makes them too.
TEST(Replay, MakesGatherAndScatterOfUnequalParts) {
  ReplayJob job(3);
  for (const std::int64_t rank : {0, 1, 2}) {
    for (const bool gathers : {true, false}) {
      const Elements part{2 + rank};
      const Elements all{rank == 2 ? 9 : 0};
      job.add(rank, {.kind = CommKind::other,
                     .dtype = DType::fp32,
                     .group = job.trace.groups.intern({Rank{0}, Rank{1}, Rank{2}}, Axis::dp),
                     .input = gathers ? part : all,
                     .output = gathers ? all : part,
                     .root = GroupRank{2},
                     .name = job.trace.names.intern(gathers ? "MPI_Gatherv" : "MPI_Scatterv")});
    }
  }
  const Trace again = replayed(job.trace, {});
  const Trace and_again = replayed(again, {});
  for (const Trace* const trace : {&again, &and_again}) {
    EXPECT_EQ(spelled(*trace, 0),
              (std::vector<std::string>{"other gather fp32 2 -> 0 root 2 [ 0 1 2 ] iteration 0",
                                        "other scatter fp32 0 -> 2 root 2 [ 0 1 2 ] iteration 0"}));
    EXPECT_EQ(spelled(*trace, 2),
              (std::vector<std::string>{"other gather fp32 4 -> 9 root 2 [ 0 1 2 ] iteration 0",
                                        "other scatter fp32 9 -> 4 root 2 [ 0 1 2 ] iteration 0"}));
  }
}

TEST(Replay, OfNeighboursThatSendAndReceiveAtOnceEnds) {
  ReplayJob job(2);
  for (int round = 0; round < 50; ++round) {
    for (const std::int64_t rank : {0, 1}) {
      job.send(rank, 1 - rank, 100'000, When{round * 10, round * 10 + 1});
      job.recv(rank, 1 - rank, 100'000, When{round * 10 + 2, round * 10 + 3});
    }
  }
  const Trace again = replayed(job.trace, {});
  EXPECT_EQ(spelled(again, 1), spelled(job.trace, 1));
}

// How long it takes beyond that is the machine's affair; replay_pace_test.cpp has the exact numbers.
TEST(Replay, TakesNoLessThanItsGaps) {
  const ReplayJob job = chain(21, microseconds(2000));
  for (const bool sleeps : {false, true}) {
    const Trace again = replayed(job.trace, {.sleeps = sleeps, .yields = true});
    EXPECT_GE(makespan_of(again), milliseconds(40)) << sleeps;
  }
  EXPECT_GE(makespan_of(replayed(job.trace, {.scale_compute = 2.0, .sleeps = true})), milliseconds(80));
}

// 20 calls that take 5 ms more: 5 ms apart, a closed loop is 5 ms later with each; 2 ms apart, an open loop 3
// ms.
TEST(Replay, IsLateOnASlowNetwork) {
  constexpr int k_calls = 20;
  const milliseconds delay(5);
  const ReplayJob job = chain(k_calls, milliseconds(5));
  EXPECT_GE(last_lag(replayed(job.trace, {.sleeps = true}, delay), milliseconds(5)), delay * (k_calls - 1));
  const ReplayJob dense = chain(k_calls, milliseconds(2));
  EXPECT_GE(
      last_lag(replayed(dense.trace, {.pace = ReplayPace::timed, .sleeps = true}, delay), milliseconds(2)),
      milliseconds(3) * (k_calls - 1));
}

TEST(Replay, RunsAnyNumberOfTimesAndRecordsOne) {
  const ReplayJob job = chain(10, microseconds(10));
  const ScratchDirectory directory;
  const std::filesystem::path path = directory / "t";
  const ReplayPlan plan = replay_plan(job.trace, {}).value();
  create_recording(path, {.producer = "test", .description = "", .framework = "", .ranks = 2});
  run_thread_ranks(2, [&](std::unique_ptr<Communicator> world) {
    Recorder recorder(path, Rank{world->rank().value});
    ReplayRank rank(plan, *world);
    for (int run = 0; run < 3; ++run) {
      EXPECT_GT(rank.play({}), nanoseconds(0));
    }
    rank.play({}, recorder);
  });
  finish_recording(path);
  EXPECT_EQ(spelled(read_trace(path).value(), 0), spelled(job.trace, 0));
}

}  // namespace
}  // namespace commlens::bench
