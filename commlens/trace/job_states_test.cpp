#include "commlens/trace/job_states.hpp"

#include <csignal>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "commlens/trace/comm_members.hpp"
#include "commlens/trace/recorder.hpp"
#include "commlens/trace/test_support.hpp"
#include "commlens/trace/trace_file.hpp"

namespace commlens {
namespace {

using test_support::content_of;
using test_support::ScratchDirectory;

RecordedCall barrier_of(GroupId group) { return {.kind = CommKind::barrier, .group = group, .tag = {}}; }

std::vector<StatedCall> calls_of(const JobStates& job, std::size_t row) {
  std::vector<StatedCall> calls;
  job.visit(row, [&](const StatedCall& call) { calls.push_back(call); });
  return calls;
}

std::vector<CallState> states_of(const JobStates& job, std::size_t row) {
  std::vector<CallState> states;
  job.visit(row, [&](const StatedCall& call) { states.push_back(call.state); });
  return states;
}

class JobStatesOfTwoRanks : public testing::Test {
 protected:
  void SetUp() override {
    create_recording(path(), {.producer = "test", .description = {}, .framework = {}, .ranks = 2});
  }
  std::filesystem::path path() const { return directory_ / "t"; }
  JobStates opened() const {
    Result<JobStates> job = JobStates::open(path());
    EXPECT_TRUE(job) << job.error().message;
    return std::move(*job);
  }
  ScratchDirectory directory_;
};

TEST_F(JobStatesOfTwoRanks, AreThoseOfEachCallWhileItIsRecorded) {
  Recorder recorder(path(), Rank{0});
  const GroupId group = recorder.group({Rank{0}, Rank{1}}, Axis::world, CommunicatorId{7});
  recorder.set_iteration(3);
  recorder.finish(recorder.begin(barrier_of(group)));
  recorder.fail(recorder.begin(barrier_of(group)), CallEnd::failed);
  recorder.fail(recorder.begin(barrier_of(group)), CallEnd::cancelled);
  recorder.begin(barrier_of(group), 12345);
  const JobStates job = opened();
  ASSERT_EQ(job.ranks().size(), 2U);
  EXPECT_EQ(states_of(job, 0), (std::vector{CallState::finished, CallState::failed, CallState::cancelled,
                                            CallState::under_way}));
  const std::vector<StatedCall> calls = calls_of(job, 0);
  EXPECT_EQ(calls.back().started_ns, 12345);
  EXPECT_EQ(calls.back().iteration, 3);
  EXPECT_EQ(job.tables().op(calls.back().op).kind, CommKind::barrier);
  EXPECT_FALSE(job.ranks()[0].has_ended);
  EXPECT_TRUE(job.ranks()[0].is_recorded);
  EXPECT_FALSE(job.ranks()[1].is_recorded);
  EXPECT_FALSE(job.is_concluded());
}

TEST_F(JobStatesOfTwoRanks, SayWhichCallsADeviceHasBegun) {
  using std::chrono::nanoseconds;
  Recorder recorder(path(), Rank{0});
  const GroupId group = recorder.group({Rank{0}, Rank{1}}, Axis::world, CommunicatorId{7});
  const Recorder::Slot first = recorder.begin(barrier_of(group), 1000);
  const Recorder::Slot second = recorder.begin(barrier_of(group), 1100);
  const Recorder::Slot third = recorder.begin(barrier_of(group), 1200);
  recorder.start(first, nanoseconds(1000), nanoseconds(1500));
  recorder.start(second, nanoseconds(1100), nanoseconds(1100));  // at once
  const std::vector<StatedCall> calls = calls_of(opened(), 0);
  ASSERT_EQ(calls.size(), 3U);
  EXPECT_EQ(calls[0].state, CallState::under_way);
  EXPECT_TRUE(calls[0].is_on_device);
  EXPECT_EQ(calls[0].started_ns, 1500);
  EXPECT_TRUE(calls[1].is_on_device);
  EXPECT_FALSE(calls[2].is_on_device);
  recorder.finish(third, 1300);
  recorder.start(third, nanoseconds(1200), nanoseconds(1250));  // too late
  recorder.finish(first, {nanoseconds(1000), nanoseconds(1500), nanoseconds(1700)});
  recorder.finish(second, {nanoseconds(1100), nanoseconds(1100), nanoseconds(1400)});
  recorder.close();
  const Result<Trace> trace = read_trace(path());
  ASSERT_TRUE(trace) << trace.error().message;
  EXPECT_EQ(trace->streams.at(0).times,
            (std::vector<Times>{{nanoseconds(1000), nanoseconds(1500), nanoseconds(1700)},
                                {nanoseconds(1100), nanoseconds(1100), nanoseconds(1400)},
                                {nanoseconds(1200), nanoseconds(1200), nanoseconds(1300)}}));
}

TEST(JobStatesOfARing, AnOverwrittenCallThatADeviceBeginsChangesNoOther) {
  using std::chrono::nanoseconds;
  const ScratchDirectory directory;
  create_recording(directory / "t",
                   {.producer = "test", .description = {}, .framework = {}, .ranks = 1, .ring_records = 2});
  Recorder recorder(directory / "t", Rank{0}, {.ring_records = 2});
  const GroupId group = recorder.group({Rank{0}}, Axis::self);
  const Recorder::Slot first = recorder.begin(barrier_of(group), 1000);
  recorder.begin(barrier_of(group), 1100);
  recorder.begin(barrier_of(group), 1200);  // in the place of the first
  recorder.start(first, nanoseconds(1000), nanoseconds(1300));
  const Result<JobStates> job = JobStates::open(directory / "t");
  ASSERT_TRUE(job) << job.error().message;
  const std::vector<StatedCall> calls = calls_of(*job, 0);
  ASSERT_EQ(calls.size(), 2U);
  EXPECT_EQ(calls[0].started_ns, 1100);
  EXPECT_EQ(calls[1].started_ns, 1200);
  EXPECT_FALSE(calls[0].is_on_device || calls[1].is_on_device);
}

TEST_F(JobStatesOfTwoRanks, SayWhoARankIs) {
  Recorder recorder(path(), Rank{0});
  const JobStates job = opened();
  const std::optional<RankProcess>& process = job.ranks()[0].process;
  ASSERT_TRUE(process);
  EXPECT_EQ(process->pid, getpid());
  EXPECT_EQ(process->host, own_host());
  EXPECT_EQ(std::optional(process->start_ticks), start_ticks_of(getpid()));
  EXPECT_GT(process->start_ticks, 0);
  EXPECT_EQ(process->exe, std::filesystem::read_symlink("/proc/self/exe"));
  EXPECT_FALSE(job.ranks()[0].boot.empty());
}

TEST_F(JobStatesOfTwoRanks, SayWhenARankBeginsToEndAndHasEnded) {
  Recorder recorder(path(), Rank{0});
  EXPECT_FALSE(opened().ranks()[0].has_begun_to_end);
  recorder.announce_end();
  EXPECT_TRUE(opened().ranks()[0].has_begun_to_end);
  EXPECT_FALSE(opened().ranks()[0].has_ended);
  recorder.close();
  EXPECT_TRUE(opened().ranks()[0].has_ended);
  finish_recording(path());
  EXPECT_TRUE(opened().is_concluded());
  EXPECT_TRUE(read_trace(path()));
}

TEST_F(JobStatesOfTwoRanks, CountCallsThatAreLost) {
  {
    Recorder recorder(path(), Rank{0});
    const GroupId group = recorder.group({Rank{0}, Rank{1}}, Axis::world);
    for (int call = 0; call < 3; ++call) {
      recorder.finish(recorder.begin(barrier_of(group)));
    }
  }
  std::string calls = content_of(path() / "rank-0.bin");
  std::fill_n(calls.begin() + 64 + 32, 32, '\0');  // the second record
  directory_.write("t/rank-0.bin", calls);
  const JobStates job = opened();
  EXPECT_EQ(job.ranks()[0].lost, 1);
  EXPECT_EQ(states_of(job, 0).size(), 2U);
}

// Its first line is that of a version that did not say who a rank is.
TEST_F(JobStatesOfTwoRanks, OfOlderRecordingsHaveNoProcess) {
  {
    Recorder recorder(path(), Rank{0});
  }
  std::string tables = content_of(path() / "rank-0.jsonl");
  const std::size_t from = tables.find(R"(, "process")");
  ASSERT_NE(from, std::string::npos);
  tables.erase(from, tables.find("}", from) + 1 - from);
  directory_.write("t/rank-0.jsonl", tables);
  EXPECT_FALSE(opened().ranks()[0].process);
  EXPECT_TRUE(opened().ranks()[0].has_ended);
}

// Rank 0 did not know the others when it made its calls; by now 2 is known, and 1 is not.
TEST_F(JobStatesOfTwoRanks, HaveTheMembersThatAreKnownByNow) {
  constexpr CommunicatorId communicator{9};
  const Rank second{k_first_stranger.value + 1};
  const Rank third{k_first_stranger.value + 2};
  Recorder recorder(path(), Rank{0});
  recorder.begin(barrier_of(recorder.group({Rank{0}, second, third}, Axis::unknown, communicator)));
  recorder.begin({.kind = CommKind::send,
                  .group = recorder.group({Rank{0}, third}, Axis::unknown, communicator),
                  .tag = {}});
  const std::vector<std::int64_t> members = {1, 0, 3};  // rank + 1
  directory_.write("t/nccl-comm-0000000000000009.bin",
                   std::string(reinterpret_cast<const char*>(members.data()), 24));
  EXPECT_EQ(published_members(path(), 9, 8), (std::vector<std::optional<Rank>>{Rank{0}, {}, Rank{2}}));
  const JobStates job = opened();
  std::vector<std::vector<Rank>> groups;
  job.visit(0, [&](const StatedCall& call) {
    groups.push_back(job.tables().groups.members(job.tables().op(call.op).group, Rank{0}));
  });
  EXPECT_EQ(groups, (std::vector<std::vector<Rank>>{{Rank{0}, second, Rank{2}}, {Rank{0}, Rank{2}}}));
}

TEST(JobStates, AreOfRecordingsAlone) {
  const ScratchDirectory directory;
  Trace trace;
  trace.streams.push_back({{Rank{0}, Rank{0}}, {}, {}, {}});
  write_trace(trace, directory / "t");
  const Result<JobStates> job = JobStates::open(directory / "t");
  ASSERT_FALSE(job);
  EXPECT_NE(job.error().message.find("no recording"), std::string::npos);
  EXPECT_FALSE(JobStates::open(directory / "none"));
}

TEST(StartOfAProcess, IsLaterForAChildAndNoneWhenItIsGone) {
  const pid_t child = fork();
  if (child == 0) {
    pause();
    _exit(0);
  }
  const std::optional<std::int64_t> started = start_ticks_of(child);
  ASSERT_TRUE(started);
  EXPECT_GE(*started, start_ticks_of(getpid()).value());
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_FALSE(start_ticks_of(child));
}

}  // namespace
}  // namespace commlens
