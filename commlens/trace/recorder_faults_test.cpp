// What a recording is worth after the worst: a killed rank, a full disk.
#include <atomic>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>
#include <string>

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "commlens/trace/recorder.hpp"
#include "commlens/trace/test_support.hpp"
#include "commlens/trace/trace_file.hpp"

namespace commlens {
namespace {

using test_support::ScratchDirectory;

/// A number that a child process and its parent share.
class SharedCount {
 public:
  SharedCount() {
    void* const start =
        mmap(nullptr, sizeof *count_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    count_ = new (start) std::atomic<std::int64_t>(0);
  }
  ~SharedCount() { munmap(count_, sizeof *count_); }
  SharedCount(const SharedCount&) = delete;
  SharedCount& operator=(const SharedCount&) = delete;
  std::atomic<std::int64_t>& operator*() { return *count_; }

 private:
  std::atomic<std::int64_t>* count_ = nullptr;
};

/// Runs `body` in a child process. What it returned, or how the child died.
std::string in_child(const std::function<std::string()>& body) {
  int ends[2] = {};
  EXPECT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    // What a sanitizer says must not meet the child's limit of file sizes where a log takes it.
    const int nowhere = open("/dev/null", O_WRONLY);
    dup2(nowhere, STDOUT_FILENO);
    dup2(nowhere, STDERR_FILENO);
    const std::string said = body();
    [[maybe_unused]] const ssize_t ignored = write(ends[1], said.data(), said.size());
    _exit(0);
  }
  ::close(ends[1]);
  std::string said;
  char block[4096];
  for (ssize_t got = 0; (got = ::read(ends[0], block, sizeof block)) > 0;) {
    said.append(block, static_cast<std::size_t>(got));
  }
  ::close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? said : fmt::format("died with status {}", status);
}

RecordedCall call_of(GroupId group, std::int64_t elements) {
  return {.kind = CommKind::all_reduce,
          .dtype = DType::fp32,
          .group = group,
          .input = Elements{elements},
          .output = Elements{elements},
          .tag = "wte"};
}

/// Records calls of 1, 2, … `sizes`, 1, … elements; `finished` counts those that are complete.
void record_for_ever(const std::filesystem::path& directory, std::int64_t sizes,
                     std::atomic<std::int64_t>& finished) {
  Recorder recorder(directory, Rank{0});
  const GroupId group = recorder.group({Rank{0}}, Axis::dp);
  for (std::int64_t call = 0;; ++call) {
    recorder.finish(recorder.begin(call_of(group, 1 + call % sizes)));
    finished.store(call + 1);
  }
}

/// Records until the parent has seen `calls` of them and kills the child; how many were finished then.
std::int64_t record_and_kill(const std::filesystem::path& directory, std::int64_t sizes, std::int64_t calls) {
  SharedCount finished;
  const pid_t child = fork();
  if (child == 0) {
    record_for_ever(directory, sizes, *finished);
  }
  while ((*finished).load() < calls && waitpid(child, nullptr, WNOHANG) == 0) {
  }
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  return (*finished).load();
}

// With a new size in each call, many of the kills fall between the line of the tables and its record.
TEST(Recorder, KilledAtAnyMomentKeepsEveryFinishedCall) {
  for (std::uint64_t seed = 0; seed < 24; ++seed) {
    const ScratchDirectory directory;
    create_recording(directory / "t", {.producer = "test", .ranks = 1});
    std::mt19937_64 random(seed);
    const std::int64_t sizes = seed % 2 == 0 ? INT64_MAX : 3;
    const auto calls = static_cast<std::int64_t>(random() % (seed % 2 == 0 ? 400 : 100'000));
    const std::int64_t finished = record_and_kill(directory / "t", sizes, calls);
    ASSERT_GE(finished, calls) << "seed=" << seed << ": the child died by itself";
    if (seed % 4 >= 2) {
      finish_recording(directory / "t");
    }
    const Result<Trace> trace = read_trace(directory / "t");
    ASSERT_TRUE(trace) << "seed=" << seed << ": " << trace.error().message;
    const RankStream& stream = trace->streams.at(0);
    const auto recorded = static_cast<std::int64_t>(stream.events.size());
    EXPECT_TRUE(recorded == finished || recorded == finished + 1)
        << "seed=" << seed << ": " << recorded << " of " << finished;
    for (std::int64_t call = 0; call < recorded; ++call) {
      const CommOp& op = trace->op(stream.events[static_cast<std::size_t>(call)].op);
      ASSERT_EQ(op.input.value, 1 + call % sizes) << "seed=" << seed;
    }
    EXPECT_EQ(stream.times.size(), stream.events.size()) << "seed=" << seed;
  }
}

TEST(Recorder, KilledWhileItOpensLeavesAReadableTrace) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const ScratchDirectory directory;
    create_recording(directory / "t", {.producer = "test", .ranks = 1});
    SharedCount finished;
    const pid_t child = fork();
    if (child == 0) {
      record_for_ever(directory / "t", 1, *finished);
    }
    const std::uint64_t spins = std::mt19937_64(seed)() % 2'000'000;
    for (std::uint64_t spin = 0; spin < spins && (*finished).load() == 0; ++spin) {
    }
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    const Result<Trace> trace = read_trace(directory / "t");
    ASSERT_TRUE(trace) << "seed=" << seed << ": " << trace.error().message;
    EXPECT_GE(static_cast<std::int64_t>(trace->streams.at(0).events.size()), (*finished).load());
  }
}

/// Records `calls` calls, each of a new size or all of one, and says what does not fit: nothing when every
/// recorded call is intact, at least `least` are, and all others are counted.
std::string record_beyond_the_limit(const std::filesystem::path& directory, std::int64_t calls, bool is_new,
                                    std::int64_t least) {
  create_recording(directory, {.producer = "test", .ranks = 1});
  std::int64_t dropped = 0;
  {
    Recorder recorder(directory, Rank{0});
    const GroupId group = recorder.group({Rank{0}}, Axis::dp);
    for (std::int64_t call = 0; call < calls; ++call) {
      recorder.finish(recorder.begin(call_of(group, is_new ? call : 7)));
    }
    recorder.close();
    dropped = recorder.dropped();
  }
  finish_recording(directory);
  const Result<Trace> trace = read_trace(directory);
  if (!trace) {
    return trace.error().message;
  }
  const auto kept = static_cast<std::int64_t>(trace->streams.at(0).events.size());
  if (kept + dropped != calls || kept < least || dropped == 0) {
    return fmt::format("{} kept, {} dropped of {}", kept, dropped, calls);
  }
  if (trace->provenance.skipped.at("call not recorded, disk full") != dropped) {
    return "the trace does not say how many were dropped";
  }
  for (std::int64_t call = 0; call < kept; ++call) {
    if (trace->op(trace->streams[0].events[static_cast<std::size_t>(call)].op).input.value !=
        (is_new ? call : 7)) {
      return fmt::format("call {} is another", call);
    }
  }
  return "intact";
}

/// A disk of 1 MiB, of this process only, mounted at `directory`; the reason when the system does not allow
/// it.
std::string mount_small_disk(const std::filesystem::path& directory) {
  if (unshare(CLONE_NEWNS) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) {
    return "no mount namespace of our own";
  }
  if (mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      mount("tmpfs", directory.c_str(), "tmpfs", 0, "size=1m") != 0) {
    return "no permission to mount";
  }
  return {};
}

TEST(Recorder, OnAFullDiskKeepsWhatFitsAndCountsTheRest) {
  for (const bool is_new : {false, true}) {
    const ScratchDirectory directory;
    const std::string said = in_child([&]() -> std::string {
      if (const std::string reason = mount_small_disk(directory / "."); !reason.empty()) {
        return "skip: " + reason;
      }
      // 1 MiB holds 32,768 records; or, when the tables grow too, the lines that fit beside the first
      // records.
      return record_beyond_the_limit(directory / "t", 100'000, is_new, is_new ? 100 : 20'000);
    });
    if (said.starts_with("skip: ")) {
      GTEST_SKIP() << said.substr(6);
    }
    EXPECT_EQ(said, "intact") << "new descriptions: " << is_new;
  }
}

TEST(Recorder, WithinALimitOfFileSizesStopsWithoutASignal) {
  const ScratchDirectory directory;
  const std::string said = in_child([&] {
    const rlimit limit = {.rlim_cur = 1 << 20, .rlim_max = 1 << 20};
    setrlimit(RLIMIT_FSIZE, &limit);
    return record_beyond_the_limit(directory / "t", 100'000, false, (1 << 20) / 32 - 2);
  });
  EXPECT_EQ(said, "intact");
}

TEST(Recorder, KilledAtAnyMomentKeepsEveryComputeStretch) {
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    const ScratchDirectory directory;
    create_recording(directory / "t", {.producer = "test", .ranks = 1, .compute = true});
    SharedCount finished;
    const pid_t child = fork();
    if (child == 0) {
      Recorder recorder(directory / "t", Rank{0}, {.parts = RecorderParts::calls_and_compute});
      for (std::int64_t interval = 0;; ++interval) {
        recorder.start_computing(interval * 5'000);
        recorder.stop_computing(interval * 5'000 + 2'000);
        (*finished).store(interval + 1);
      }
    }
    const auto stretches = static_cast<std::int64_t>(std::mt19937_64(seed)() % 50'000);
    while ((*finished).load() < stretches && waitpid(child, nullptr, WNOHANG) == 0) {
    }
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    const std::int64_t done = (*finished).load();
    const Result<Trace> trace = read_trace(directory / "t");
    ASSERT_TRUE(trace) << "seed=" << seed << ": " << trace.error().message;
    const std::vector<ComputeInterval>& compute = trace->streams.at(0).compute;
    // Where the file's thread got no turn on a busy machine, intervals are dropped and counted.
    const auto late = trace->provenance.skipped.find("compute time not recorded, recorder late");
    const std::int64_t dropped = late == trace->provenance.skipped.end() ? 0 : late->second;
    const std::int64_t kept = std::ssize(compute) + dropped;
    EXPECT_TRUE(kept == done || kept == done + 1) << "seed=" << seed << ": " << kept << " of " << done;
    for (std::size_t row = 0; row < compute.size() && dropped == 0; ++row) {
      ASSERT_EQ(compute[row].started.count(), static_cast<std::int64_t>(row) * 5'000) << "seed=" << seed;
      ASSERT_EQ(compute[row].finished.count(), static_cast<std::int64_t>(row) * 5'000 + 2'000);
    }
  }
}

/// Records `intervals` within a limit of the file's size; "intact" when all that fit are there and the rest
/// is counted.
std::string compute_beyond_the_limit(const std::filesystem::path& directory, std::int64_t stretches) {
  create_recording(directory, {.producer = "test", .ranks = 1, .compute = true});
  {
    Recorder recorder(directory, Rank{0}, {.parts = RecorderParts::calls_and_compute});
    for (std::int64_t interval = 0; interval < stretches; ++interval) {
      recorder.start_computing(interval * 5'000);
      recorder.stop_computing(interval * 5'000 + 2'000);
    }
  }
  finish_recording(directory);
  const Result<Trace> trace = read_trace(directory);
  if (!trace) {
    return trace.error().message;
  }
  const std::int64_t kept = std::ssize(trace->streams.at(0).compute);
  // Until the file's thread finds the disk full, intervals count as too late.
  std::int64_t dropped = 0;
  for (const auto& [reason, count] : trace->provenance.skipped) {
    dropped += reason.starts_with("compute time not recorded, ") ? count : 0;
  }
  return kept + dropped == stretches && dropped > 0 ? "intact"
                                                    : fmt::format("{} kept, {} dropped", kept, dropped);
}

TEST(Recorder, WithinALimitOfFileSizesCountsTheComputeStretchesBeyondIt) {
  const ScratchDirectory directory;
  const std::string said = in_child([&] {
    const rlimit limit = {.rlim_cur = 1 << 20, .rlim_max = 1 << 20};
    setrlimit(RLIMIT_FSIZE, &limit);
    return compute_beyond_the_limit(directory / "t", 60'000);  // 1 MiB holds 43,688
  });
  EXPECT_EQ(said, "intact");
}

TEST(Recorder, GoesOnInADeletedDirectoryAndConcludingSaysSo) {
  const ScratchDirectory directory;
  create_recording(directory / "t", {.producer = "test", .ranks = 1});
  Recorder recorder(directory / "t", Rank{0});
  const GroupId group = recorder.group({Rank{0}}, Axis::dp);
  for (std::int64_t call = 0; call < 400'000; ++call) {  // 12.8 MB: more than was reserved before
    if (call == 1000) {
      std::filesystem::remove_all(directory / "t");
    }
    recorder.finish(recorder.begin(call_of(group, call % 3000)));
  }
  recorder.close();
  EXPECT_FALSE(std::filesystem::exists(directory / "t"));
  try {
    finish_recording(directory / "t");
    ADD_FAILURE() << "no error";
  } catch (const SystemError& error) {
    EXPECT_NE(std::string(error.what()).find((directory / "t").string()), std::string::npos) << error.what();
  }
  const Result<Trace> trace = read_trace(directory / "t");
  ASSERT_FALSE(trace);
  EXPECT_NE(trace.error().message.find((directory / "t").string()), std::string::npos)
      << trace.error().message;
}

TEST(Recorder, ThrowsOnADiskThatIsFullFromTheStart) {
  const ScratchDirectory directory;
  const std::string said = in_child([&]() -> std::string {
    create_recording(directory / "t", {.producer = "test", .ranks = 1});
    const rlimit limit = {.rlim_cur = 4096, .rlim_max = 4096};
    setrlimit(RLIMIT_FSIZE, &limit);
    try {
      const Recorder recorder(directory / "t", Rank{0});
    } catch (const SystemError& error) {
      return error.what();
    }
    return "no error";
  });
  EXPECT_NE(said.find("rank-0.bin"), std::string::npos) << said;
}

#if defined(__SANITIZE_THREAD__)
#define COMMLENS_HAS_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define COMMLENS_HAS_THREAD_SANITIZER 1
#endif
#endif

/// From here on a system call ends the process.
bool forbid_system_calls() {
  sock_filter kill_process = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
  const sock_fprog program = {.len = 1, .filter = &kill_process};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0;
}

TEST(Recorder, EntersTheKernelForNoCallItHasSeen) {
#ifdef COMMLENS_HAS_THREAD_SANITIZER
  GTEST_SKIP() << "the thread sanitizer enters the kernel by itself";
#endif
  constexpr std::int64_t calls = 100'000;
  constexpr std::int64_t refused = -1;
  const ScratchDirectory directory;
  create_recording(directory / "t", {.producer = "test", .ranks = 1});
  SharedCount done;
  const pid_t child = fork();
  if (child == 0) {
    Recorder recorder(directory / "t", Rank{0}, {.parts = RecorderParts::calls_and_compute});
    const RecordedCall call = call_of(recorder.group({Rank{0}}, Axis::dp), 1);
    recorder.finish(recorder.begin(call));
    if (!forbid_system_calls()) {
      (*done).store(refused);
      _exit(0);
    }
    for (std::int64_t made = 1; made < calls; ++made) {
      recorder.finish(recorder.begin(call));
      recorder.start_computing(made * 5'000);
      recorder.set_iteration(static_cast<Iteration>(made));
      recorder.stop_computing(made * 5'000 + 2'000);
    }
    (*done).store(calls);
    for (;;) {
    }
  }
  int status = 0;
  while ((*done).load() == 0 && waitpid(child, &status, WNOHANG) == 0) {
  }
  const std::int64_t made = (*done).load();
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  if (made == refused) {
    GTEST_SKIP() << "the system does not let a process give up its system calls";
  }
  EXPECT_EQ(made, calls) << "status " << status;
  const Result<Trace> trace = read_trace(directory / "t");
  ASSERT_TRUE(trace) << trace.error().message;
  EXPECT_EQ(trace->streams[0].events.size(), static_cast<std::size_t>(calls));
}

}  // namespace
}  // namespace commlens
