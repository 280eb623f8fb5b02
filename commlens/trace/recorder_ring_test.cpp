// Recordings that keep the last calls of a rank.
#include <atomic>
#include <csignal>
#include <cstring>
#include <map>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "commlens/trace/job_states.hpp"
#include "commlens/trace/manifest.hpp"
#include "commlens/trace/recorder.hpp"
#include "commlens/trace/ring_file.hpp"
#include "commlens/trace/stream_file.hpp"
#include "commlens/trace/test_support.hpp"
#include "commlens/trace/trace_file.hpp"

namespace commlens {
namespace {

using test_support::content_of;
using test_support::ScratchDirectory;

// 64 + 64 bytes of headers, 256 rows of 48 bytes, 32,768 counts of 8 bytes.
constexpr std::uint64_t k_before = 274'560;

RecordedCall reduce_of(GroupId group, std::int64_t elements) {
  return {.kind = CommKind::all_reduce,
          .dtype = DType::fp32,
          .group = group,
          .input = Elements{elements},
          .output = Elements{elements},
          .blocking = true,
          .tag = {}};
}

RecordedCall receive_of(GroupId group, std::int64_t elements) {
  return {.kind = CommKind::recv, .group = group, .output = Elements{elements}, .blocking = false, .tag = {}};
}

/// A recording of one rank in a ring of `records`.
class RingRecording {
 public:
  explicit RingRecording(std::int64_t records) : records_(records) {
    create_recording(path(), {.producer = "test", .ranks = 1, .ring_records = records});
  }
  std::filesystem::path path() const { return directory_ / "t"; }
  std::filesystem::path file() const { return path() / "rank-0.bin"; }
  Recorder open() const { return Recorder(path(), Rank{0}, {.ring_records = records_}); }
  void write(const std::string& bytes) const { directory_.write("t/rank-0.bin", bytes); }
  std::string records() const { return content_of(file()).substr(k_before); }
  Trace read() const {
    Result<Trace> trace = read_trace(path());
    EXPECT_TRUE(trace) << trace.error().message;
    return trace ? std::move(*trace) : Trace{};
  }
  RingCalls ring() const {
    const Result<JobStates> job = JobStates::open(path());
    EXPECT_TRUE(job) << job.error().message;
    const std::optional<RingCalls> ring = job->ring(0);
    EXPECT_TRUE(ring);
    return ring.value_or(RingCalls{});
  }

 private:
  ScratchDirectory directory_;
  std::int64_t records_;
};

/// Records all-reduces of `first`, …, `last` elements.
void record(Recorder& recorder, GroupId group, std::int64_t first, std::int64_t last) {
  for (std::int64_t elements = first; elements <= last; ++elements) {
    recorder.finish(recorder.begin(reduce_of(group, elements)));
  }
}

GroupId pair_of(Recorder& recorder) {
  return recorder.group({Rank{0}, Rank{1}}, Axis::world, CommunicatorId{7});
}

std::vector<std::int64_t> sizes_of(const Trace& trace) {
  std::vector<std::int64_t> sizes;
  for (const CommEvent& event : trace.streams.at(0).events) {
    sizes.push_back(trace.op(event.op).input.value);
  }
  return sizes;
}

std::map<std::string, std::int64_t> skipped(std::int64_t overwritten) {
  return {{"call overwritten, ring full", overwritten}};
}

TEST(RecorderRing, KeepsTheLastCallsInOrderOfIssue) {
  const RingRecording recording(8);
  {
    Recorder recorder = recording.open();
    record(recorder, pair_of(recorder), 1, 11);
    EXPECT_EQ(sizes_of(recording.read()), (std::vector<std::int64_t>{4, 5, 6, 7, 8, 9, 10, 11}));
    EXPECT_EQ(recording.read().provenance.skipped, skipped(3));
  }
  finish_recording(recording.path());
  EXPECT_EQ(std::filesystem::file_size(recording.file()), k_before + 8 * 32);
  EXPECT_EQ(sizes_of(recording.read()), (std::vector<std::int64_t>{4, 5, 6, 7, 8, 9, 10, 11}));
  EXPECT_EQ(recording.read().provenance.skipped, skipped(3));
  EXPECT_EQ(read_manifest(recording.path() / "manifest.json")->streams.at(0).events, 11);
  EXPECT_EQ(read_manifest(recording.path() / "manifest.json")->streams.at(0).ring, 8);
}

TEST(RecorderRing, ThatIsNotFullHasAllCallsAndIsCutAtItsEnd) {
  for (const std::int64_t calls : {0, 1, 5, 8}) {
    const RingRecording recording(8);
    {
      Recorder recorder = recording.open();
      EXPECT_EQ(std::filesystem::file_size(recording.file()), k_before + 8 * 32);
      record(recorder, pair_of(recorder), 1, calls);
    }
    finish_recording(recording.path());
    EXPECT_EQ(std::filesystem::file_size(recording.file()),
              k_before + static_cast<std::uint64_t>(calls) * 32);
    EXPECT_EQ(static_cast<std::int64_t>(sizes_of(recording.read()).size()), calls);
    EXPECT_TRUE(recording.read().provenance.skipped.empty()) << calls << " calls";
  }
}

TEST(RecorderRing, StaysOfItsSizeAfterAMillionCalls) {
  const RingRecording recording(1000);
  {
    Recorder recorder = recording.open();
    const GroupId group = pair_of(recorder);
    for (int call = 0; call < 1'000'000; ++call) {
      recorder.finish(recorder.begin(reduce_of(group, call % 7)));
      if (call % 100'000 == 0) {
        EXPECT_EQ(std::filesystem::file_size(recording.file()), k_before + 1000 * 32);
      }
    }
    EXPECT_EQ(recorder.dropped(), 0);
  }
  EXPECT_EQ(std::filesystem::file_size(recording.file()), k_before + 1000 * 32);
  const Trace trace = recording.read();
  EXPECT_EQ(trace.streams.at(0).events.size(), 1000U);
  EXPECT_EQ(trace.provenance.skipped, skipped(999'000));
}

// Iteration 2 lost its first call, so that it is no iteration any more; nor is initialisation.
TEST(RecorderRing, CallsOfAnIterationThatIsNotWholeAreOfNone) {
  const RingRecording recording(8);
  Recorder recorder = recording.open();
  const GroupId group = pair_of(recorder);
  for (const int iteration : {0, 1, 2, 3, 4}) {
    recorder.set_iteration(iteration);
    record(recorder, group, 1, 3);
  }
  const Trace trace = recording.read();
  std::vector<Iteration> iterations;
  for (const CommEvent& event : trace.streams.at(0).events) {
    iterations.push_back(event.iteration);
  }
  constexpr Iteration none = k_unknown_iteration;
  EXPECT_EQ(iterations, (std::vector<Iteration>{none, none, 3, 3, 3, 4, 4, 4}));
}

TEST(RecorderRing, CountsTheOverwrittenCallsOfEachCommunicatorAndDirection) {
  const RingRecording recording(4);
  Recorder recorder = recording.open();
  const GroupId world = pair_of(recorder);
  const GroupId other = recorder.group({Rank{0}, Rank{1}}, Axis::world, CommunicatorId{8});
  const GroupId sent = recorder.group({Rank{0}, Rank{1}}, Axis::unknown, CommunicatorId{7});
  record(recorder, world, 1, 3);  // of three descriptions, and one more of another kind
  recorder.finish(recorder.begin({.kind = CommKind::barrier, .group = world, .tag = {}}));
  record(recorder, other, 1, 2);
  recorder.fail(recorder.begin(reduce_of(other, 1)), CallEnd::cancelled);
  recorder.fail(recorder.begin(reduce_of(other, 1)), CallEnd::failed);
  recorder.finish(recorder.begin({.kind = CommKind::send, .group = sent, .tag = {}}));
  record(recorder, world, 1, 4);
  const RingCalls ring = recording.ring();
  const Result<JobStates> job = JobStates::open(recording.path());
  std::map<std::pair<CommKind, std::uint64_t>, std::int64_t> counted;
  for (const auto& [op, calls] : ring.before) {
    const CommOp& described = job->tables().op(op);
    const auto communicator = static_cast<std::uint64_t>(job->tables().groups.communicator(described.group));
    counted[{described.kind, communicator}] += calls;
  }
  const std::map<std::pair<CommKind, std::uint64_t>, std::int64_t> expected = {
      {{CommKind::all_reduce, 7}, 4}, {{CommKind::all_reduce, 8}, 3}, {{CommKind::send, 7}, 1}};
  EXPECT_EQ(counted, expected);
  EXPECT_EQ(ring.calls.size(), 4U);
  EXPECT_EQ(ring.lost, 0);
}

TEST(RecorderRing, KeepsACallUnderWayThatIsOverwritten) {
  const RingRecording recording(8);
  Recorder recorder = recording.open();
  const GroupId group = pair_of(recorder);
  record(recorder, group, 1, 2);
  recorder.begin(reduce_of(group, 100), 12'345);
  record(recorder, group, 3, 11);
  const RingCalls ring = recording.ring();
  ASSERT_EQ(ring.calls.size(), 9U);
  EXPECT_TRUE(ring.calls.front().is_overwritten);
  EXPECT_EQ(ring.calls.front().state, CallState::under_way);
  EXPECT_EQ(ring.calls.front().number, 3);
  EXPECT_EQ(ring.calls.front().started_ns, 12'345);
  ASSERT_EQ(ring.before.size(), 1U);
  EXPECT_EQ(ring.before.front().second, 4);  // 1, 2, 100, 3
  EXPECT_EQ(ring.lost, 0);
  EXPECT_EQ(recording.read().provenance.skipped, skipped(4));
}

TEST(RecorderRing, TheEndOfAnOverwrittenCallChangesNoOtherRecord) {
  const RingRecording recording(8);
  Recorder recorder = recording.open();
  const GroupId group = pair_of(recorder);
  const GroupId source = recorder.group({Rank{1}, Rank{0}}, Axis::unknown, CommunicatorId{7});
  std::vector<Recorder::Slot> slots;
  for (int call = 0; call < 6; ++call) {
    slots.push_back(recorder.begin(reduce_of(group, 100 + call), 1));
  }
  recorder.finish(recorder.begin(receive_of(source, 1)));  // its row is in the tables
  for (std::int64_t call = 0; call < 13; ++call) {  // the first ones are lapped by one, the rest by all
    recorder.finish(recorder.begin(reduce_of(group, 3), 1000), 2000);
  }
  const std::string before = recording.records();
  recorder.finish(slots[0], 5000);
  recorder.finish(
      slots[1], Times{std::chrono::nanoseconds(7), std::chrono::nanoseconds(8), std::chrono::nanoseconds(9)});
  recorder.fail(slots[2], CallEnd::failed);
  recorder.fail(slots[3], CallEnd::cancelled);
  recorder.finish(slots[4], receive_of(source, 1), 5000);
  EXPECT_EQ(recording.records(), before);
  const RingCalls ring = recording.ring();
  ASSERT_EQ(ring.calls.size(), 9U);
  EXPECT_TRUE(ring.calls[0].is_overwritten);  // the sixth call, and the fourth one that was made after all
  EXPECT_EQ(ring.calls[0].number, 4);
  EXPECT_FALSE(ring.calls[1].is_overwritten);
  // Of 20 calls 12 were overwritten: 6, the message, and 5. One was cancelled, one was a message.
  ASSERT_EQ(ring.before.size(), 2U);
  EXPECT_EQ(ring.before[0].second, 9);
  EXPECT_EQ(ring.before[1].second, 2);
  EXPECT_EQ(ring.lost, 0);
}

TEST(RecorderRing, MoreOverwrittenCallsUnderWayThanItKeepsAreUnknown) {
  const RingRecording recording(8);
  Recorder recorder = recording.open();
  const GroupId group = pair_of(recorder);
  for (int call = 0; call < 8 + 256; ++call) {
    recorder.begin(reduce_of(group, 1));
  }
  EXPECT_EQ(recording.ring().lost, 0);
  EXPECT_EQ(recording.ring().calls.size(), 256U + 8U);
  recorder.begin(reduce_of(group, 1));
  EXPECT_EQ(recording.ring().lost, 1);
  EXPECT_EQ(recording.ring().before.at(0).second, 257);
}

TEST(RecorderRing, EndsWhereItsFileIsCutOff) {
  const RingRecording recording(8);
  {
    Recorder recorder = recording.open();
    record(recorder, pair_of(recorder), 1, 11);
  }
  const std::string whole = content_of(recording.file());
  recording.write(
      whole.substr(0, k_before + 3 * 32 + 16));  // records 9, 10, 11 are in the first three places
  const Trace trace = recording.read();
  EXPECT_EQ(sizes_of(trace), (std::vector<std::int64_t>{9, 10, 11}));
  std::map<std::string, std::int64_t> expected = skipped(3);
  expected["record missing at the end of a stream"] = 5;
  EXPECT_EQ(trace.provenance.skipped, expected);
  for (const std::size_t bytes : {std::size_t{64}, std::size_t{100}, std::size_t{128}, std::size_t{20'000}}) {
    recording.write(whole.substr(0, bytes));
    const Result<Trace> cut = read_trace(recording.path());
    EXPECT_TRUE(!cut || cut->streams.at(0).events.empty()) << bytes << " bytes";
  }
}

TEST(RecorderRing, LostPagesAreNoCalls) {
  const RingRecording recording(256);
  {
    Recorder recorder = recording.open();
    record(recorder, pair_of(recorder), 1, 300);
  }
  const std::string whole = content_of(recording.file());
  std::string bytes = whole;
  std::fill(bytes.begin() + 69 * 4096, bytes.end(),
            '\0');  // 282,624 = 274,560 + 252 * 32: the last four places
  recording.write(bytes);
  Trace trace = recording.read();
  EXPECT_EQ(trace.streams.at(0).events.size(), 252U);
  EXPECT_EQ(trace.provenance.skipped.at("call lost, record of zeros"), 4);
  bytes = whole;
  std::fill_n(bytes.begin(), 4096, '\0');
  recording.write(bytes);
  trace = recording.read();
  EXPECT_TRUE(trace.streams.at(0).events.empty());
  EXPECT_EQ(trace.provenance.skipped.at("rank whose file lost its header"), 1);
  const Result<JobStates> job = JobStates::open(recording.path());
  ASSERT_TRUE(job);
  EXPECT_EQ(job->ranks()[0].lost, 1);
}

TEST(RecorderRing, HeadersThatNoRecorderWritesAreErrors) {
  const RingRecording recording(8);
  {
    Recorder recorder = recording.open();
    record(recorder, pair_of(recorder), 1, 11);
  }
  const std::string whole = content_of(recording.file());
  const auto with = [&](std::size_t offset, std::uint64_t value) {
    std::string bytes = whole;
    std::memcpy(bytes.data() + offset, &value, sizeof value);
    recording.write(bytes);
    const Result<Trace> trace = read_trace(recording.path());
    return trace ? std::string() : trace.error().message.substr(trace.error().message.find(": ") + 2);
  };
  EXPECT_EQ(with(8, std::uint64_t{274'560} << 32 | 4), "version 4, this program reads versions 1 to 3");
  EXPECT_EQ(with(64, 0), "is a ring of 0 records, at most 1073741824 are possible");
  EXPECT_EQ(with(64, std::uint64_t{1} << 40),
            "is a ring of 1099511627776 records, at most 1073741824 are possible");
  EXPECT_EQ(with(120, 5),
            "header of 274560 bytes, which 256 rows of calls under way and 5 counts do not make");
  EXPECT_EQ(with(72, UINT64_MAX), "");  // so much may have been begun since: nothing is there
}

TEST(RecorderRing, WithoutRoomForItsFileRecordsNothing) {
  const RingRecording recording(std::int64_t{1} << 30);
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit limit = before;
  limit.rlim_cur = rlim_t{1} << 30;  // of 32 GiB
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  EXPECT_THROW(recording.open(), SystemError);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
}

/// Records calls of 1, 2, … elements and writes after each how many are complete.
[[noreturn]] void record_for_ever(const RingRecording& recording, int done) {
  Recorder recorder = recording.open();
  const GroupId group = pair_of(recorder);
  for (std::int64_t call = 1;; ++call) {
    recorder.finish(recorder.begin(reduce_of(group, 1 + call % 1000)));
    [[maybe_unused]] const ssize_t ignored = pwrite(done, &call, sizeof call, 0);
  }
}

TEST(RecorderRing, KilledAtAnyMomentKeepsTheLastCalls) {
  std::mt19937_64 random(1);
  for (int attempt = 0; attempt < 24; ++attempt) {
    const RingRecording recording(64);
    const ScratchDirectory shared;
    shared.write("done", std::string(8, '\0'));
    const int done = open((shared / "done").c_str(), O_RDWR | O_CLOEXEC);
    const pid_t child = fork();
    if (child == 0) {
      record_for_ever(recording, done);
    }
    std::int64_t finished = 0;
    const auto least = static_cast<std::int64_t>(100 + random() % 20'000);
    while (finished < least && waitpid(child, nullptr, WNOHANG) == 0) {
      ASSERT_EQ(pread(done, &finished, sizeof finished, 0), 8);
    }
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    ASSERT_EQ(pread(done, &finished, sizeof finished, 0), 8);
    close(done);
    ASSERT_GE(finished, least) << "the child died by itself";
    if (attempt % 2 == 1) {
      finish_recording(recording.path());
    }
    const Trace trace = recording.read();
    const std::vector<std::int64_t> sizes = sizes_of(trace);
    // The record of the call that was under way may stand in the place of the 64th.
    ASSERT_GE(sizes.size(), 62U);
    ASSERT_LE(sizes.size(), 64U);
    const std::int64_t last_size = 1 + finished % 1000;
    EXPECT_TRUE(sizes.back() == last_size || sizes.back() == 1 + (finished + 1) % 1000) << finished;
    for (std::size_t row = 1; row < sizes.size(); ++row) {
      ASSERT_EQ(sizes[row] % 1000, (sizes[row - 1] + 1) % 1000) << "attempt " << attempt << " row " << row;
    }
  }
}

/// What the record of index i says; its call has row i % 5 of ops and ends at 10 i + i % 7.
void expect_record(std::uint64_t index, const StreamRecord& record, std::int64_t& invalid) {
  const auto number = static_cast<std::int64_t>(index);
  const bool is_it = record.op_number == index % 5 + 1 && record.iteration == number &&
                     record.started_ns == 10 * number && record.micro_batch == number % 11 &&
                     (record.duration_ns == number % 7 || record.duration_ns == k_unfinished);
  invalid += is_it ? 0 : 1;
}

// Threads take turns, as the capture libraries make them; ends come late, some of them laps later.
TEST(RecorderRing, NobodyReadsARecordThatIsTornOrOverwritten) {
  constexpr std::int64_t calls = 300'000;
  const RingRecording recording(64);
  Recorder recorder = recording.open();
  const GroupId group = pair_of(recorder);
  for (std::int64_t row = 0; row < 5; ++row) {  // of which the first five records are
    recorder.set_iteration(static_cast<Iteration>(row));
    recorder.set_phase(Phase::init, static_cast<std::int32_t>(row % 11));
    recorder.finish(recorder.begin(reduce_of(group, row), 10 * row), 10 * row + row % 7);
  }
  std::mutex turn;
  std::int64_t next = 5;
  const auto write = [&](std::size_t held) {
    std::vector<std::pair<Recorder::Slot, std::int64_t>> open;
    while (true) {
      {
        const std::lock_guard lock(turn);
        if (next >= calls) {
          return;
        }
        const std::int64_t index = next++;
        recorder.set_iteration(static_cast<Iteration>(index));
        recorder.set_phase(Phase::init, static_cast<std::int32_t>(index % 11));
        open.emplace_back(recorder.begin(reduce_of(group, index % 5), 10 * index), 10 * index + index % 7);
      }
      if (open.size() > held) {
        const std::lock_guard lock(turn);
        recorder.finish(open.front().first, open.front().second);
        open.erase(open.begin());
      }
    }
  };
  std::vector<std::thread> threads;
  for (const std::size_t held : {std::size_t{0}, std::size_t{3}, std::size_t{200}}) {
    threads.emplace_back(write, held);
  }
  const Result<Manifest> manifest = read_manifest(recording.path() / "manifest.json");
  std::int64_t invalid = 0;
  std::int64_t read = 0;
  std::int64_t lapped = 0;
  RecordBlock block;
  for (bool is_over = false; !is_over;) {
    {
      const std::lock_guard lock(turn);
      is_over = next >= calls;
    }
    const int file = open(recording.file().c_str(), O_RDONLY | O_CLOEXEC);
    const ReadAt at = [&](std::uint64_t offset, std::span<std::byte> into) {
      const ssize_t got = pread(file, into.data(), into.size(), static_cast<off_t>(offset));
      return got < 0 ? std::size_t{0} : static_cast<std::size_t>(got);
    };
    RingHead head;
    ASSERT_EQ(at(0, std::as_writable_bytes(std::span(&head, 1))), sizeof head);
    const RingWindow window = window_of(head);
    for (std::uint64_t index = window.first; index < window.end;) {
      const RingPart part = read_ring(at, head, index, window.end - index, block);
      for (std::size_t row = 0; row < part.records.size(); ++row) {
        expect_record(index + part.overwritten + row, part.records[row], invalid);
      }
      read += std::ssize(part.records);
      lapped += static_cast<std::int64_t>(part.overwritten);
      index += part.asked;
    }
    close(file);
    // The same through memory, by who reads recordings.
    const Result<StreamFile> opened = StreamFile::open(recording.file(), manifest->streams.at(0));
    ASSERT_TRUE(opened) << opened.error().message;
    const std::vector<OpId> ops(5);
    opened->visit_records(ops, [&](OpId, const StreamRecord& record) {
      expect_record(static_cast<std::uint64_t>(record.iteration), record, invalid);
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(invalid, 0);
  EXPECT_GT(read, 0);
  RecordProperty("lapped", static_cast<int>(lapped));
}

}  // namespace
}  // namespace commlens
