// Measures the cost of recording a call: begin and finish of a known description. Goal: a median of at most
// 60 ns. `page_faults` counts those of the recording thread, per call.
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "commlens/base/check.hpp"
#include "commlens/trace/clock.hpp"
#include "commlens/trace/recorder.hpp"
#include "commlens/trace/stream_layout.hpp"
#include "commlens/transport/comm_recording.hpp"
#include "commlens/transport/communicator.hpp"

namespace {

using namespace commlens;

/// A recording of one rank in a directory of its own, removed at the end.
class Recording {
 public:
  explicit Recording(bool computes = false, std::int64_t ring = 0) {
    std::string name = (std::filesystem::temp_directory_path() / "commlens-benchmark-XXXXXX").string();
    COMMLENS_CHECK(mkdtemp(name.data()) != nullptr, "the benchmark needs a temporary directory");
    directory_ = name;
    create_recording(directory_ / "trace",
                     {.producer = "benchmark", .ranks = 1, .compute = computes, .ring_records = ring});
  }
  ~Recording() { std::filesystem::remove_all(directory_); }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;
  std::filesystem::path path() const { return directory_ / "trace"; }

 private:
  std::filesystem::path directory_;
};

std::int64_t page_faults() {
  rusage use = {};
  getrusage(RUSAGE_THREAD, &use);
  return use.ru_minflt + use.ru_majflt;
}

RecordedCall call_of(GroupId group, std::int64_t elements) {
  return {.kind = CommKind::all_reduce,
          .dtype = DType::bf16,
          .group = group,
          .input = Elements{elements},
          .output = Elements{elements},
          .tag = "layer 3 / mlp"};
}

void report(benchmark::State& state, const Recorder& recorder, std::int64_t faults_before) {
  const auto calls = static_cast<double>(state.iterations());
  state.counters["page_faults"] = static_cast<double>(page_faults() - faults_before) / calls;
  state.counters["dropped"] = static_cast<double>(recorder.dropped());
}

/// As fast as it goes; `state.range(0)` descriptions in turn, `state.range(1)` records in a ring, 0: the file
/// grows.
void begin_and_finish(benchmark::State& state) {
  const Recording recording(false, state.range(1));
  Recorder recorder(recording.path(), Rank{0}, {.ring_records = state.range(1)});
  const GroupId group = recorder.group({Rank{0}, Rank{1}}, Axis::dp);
  const std::int64_t descriptions = state.range(0);
  for (std::int64_t description = 0; description < descriptions; ++description) {
    recorder.finish(recorder.begin(call_of(group, description)));
  }
  const std::int64_t faults = page_faults();
  std::int64_t description = 0;
  for ([[maybe_unused]] auto _ : state) {
    recorder.finish(recorder.begin(call_of(group, description)));
    description = description + 1 == descriptions ? 0 : description + 1;
  }
  report(state, recorder, faults);
}

/// 1000 calls at the start of each millisecond, far more than a training step makes; only the calls are
/// timed.
void begin_and_finish_in_bursts(benchmark::State& state) {
  constexpr std::int64_t calls = 1000;
  const Recording recording;
  Recorder recorder(recording.path(), Rank{0});
  const RecordedCall call = call_of(recorder.group({Rank{0}, Rank{1}}, Axis::dp), 1);
  const Clock& clock = Clock::of_process();
  recorder.finish(recorder.begin(call));
  const std::int64_t faults = page_faults();
  for ([[maybe_unused]] auto _ : state) {
    const std::int64_t start = clock.now_ns();
    for (std::int64_t made = 0; made < calls; ++made) {
      recorder.finish(recorder.begin(call));
    }
    const std::int64_t spent = clock.now_ns() - start;
    state.SetIterationTime(static_cast<double>(spent) / 1e9 / static_cast<double>(calls));
    while (clock.now_ns() - start < 1'000'000) {
    }
  }
  const auto all = static_cast<double>(state.iterations() * calls);
  state.counters["page_faults"] = static_cast<double>(page_faults() - faults) / all;
  state.counters["dropped"] = static_cast<double>(recorder.dropped());
}

/// The records only, written to new pages of a file that were touched ahead or not: the cost of page faults
/// per call without the recorder's thread.
void write_records(benchmark::State& state) {
  const bool is_touched = state.range(0) != 0;
  const Recording recording;
  const auto size = static_cast<std::size_t>(state.max_iterations) * sizeof(StreamRecord);
  const int file = open((recording.path() / "records").c_str(), O_RDWR | O_CREAT, 0600);
  COMMLENS_CHECK(file >= 0 && posix_fallocate(file, 0, static_cast<off_t>(size)) == 0, "the disk has room");
  void* const start = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  COMMLENS_CHECK(start != MAP_FAILED, "a file can be mapped");
  if (is_touched) {
    COMMLENS_CHECK(madvise(start, size, MADV_POPULATE_WRITE) == 0, "needs Linux 5.14");
  }
  auto* record = static_cast<StreamRecord*>(start);
  const std::int64_t faults = page_faults();
  for ([[maybe_unused]] auto _ : state) {
    *record++ = {.op_number = 1, .started_ns = 2, .duration_ns = 3};
    benchmark::ClobberMemory();
  }
  state.counters["page_faults"] =
      static_cast<double>(page_faults() - faults) / static_cast<double>(state.iterations());
  munmap(start, size);
  close(file);
}

class CompleteWork final : public Work {
 public:
  void wait() override {}
  bool is_complete() override { return true; }
};

/// A communicator whose calls do nothing.
class NoCommunicator final : public Communicator {
 public:
  const std::vector<Rank>& members() const override { return members_; }
  GroupRank rank() const override { return {}; }
  std::unique_ptr<Work> start(const CommCall&) override { return std::make_unique<CompleteWork>(); }
  std::unique_ptr<Communicator> split(std::int64_t, std::int64_t) override { return nullptr; }
  void abort(std::string_view) override {}

 private:
  std::vector<Rank> members_ = {Rank{0}, Rank{1}};
};

void call_that_does_nothing(benchmark::State& state, Communicator& communicator) {
  const CommCall call{.kind = CommKind::all_reduce,
                      .dtype = DType::bf16,
                      .input = Elements{1000},
                      .output = Elements{1000},
                      .tag = "layer 3 / mlp"};
  communicator.run(call);
  for ([[maybe_unused]] auto _ : state) {
    communicator.run(call);
  }
}

/// A whole call of a communicator that does nothing, without recording …
void plain_call(benchmark::State& state) {
  const std::unique_ptr<Communicator> communicator = std::make_unique<NoCommunicator>();
  call_that_does_nothing(state, *communicator);
}

/// … and recorded.
void recorded_call(benchmark::State& state) {
  const Recording recording;
  Recorder recorder(recording.path(), Rank{0});
  CommClock clock;
  const std::unique_ptr<Communicator> communicator =
      recorded(std::make_unique<NoCommunicator>(), Axis::dp, recorder, clock);
  const std::int64_t faults = page_faults();
  call_that_does_nothing(state, *communicator);
  report(state, recorder, faults);
}

/// The clock only, which is read twice per call.
void read_the_clock(benchmark::State& state) {
  const Clock& clock = Clock::of_process();
  for ([[maybe_unused]] auto _ : state) {
    benchmark::DoNotOptimize(clock.now_ns());
  }
}

/// The end of one compute interval and the start of the next, each long enough to be written; the readings of
/// the clock are those that a recorded call has made anyway.
void stop_and_start_computing(benchmark::State& state) {
  const Recording recording(true);
  Recorder recorder(recording.path(), Rank{0}, {.parts = RecorderParts::calls_and_compute});
  std::int64_t now_ns = Clock::of_process().now_ns();
  recorder.start_computing(now_ns);
  const std::int64_t faults = page_faults();
  for ([[maybe_unused]] auto _ : state) {
    recorder.stop_computing(now_ns += 2000);
    recorder.start_computing(now_ns += 500);
  }
  report(state, recorder, faults);
}

BENCHMARK(read_the_clock)->Repetitions(9)->ReportAggregatesOnly();
BENCHMARK(write_records)->Arg(0)->Arg(1)->Iterations(2'000'000)->Repetitions(9)->ReportAggregatesOnly();
BENCHMARK(begin_and_finish)
    ->ArgsProduct({{1, 500}, {0, 4096, 262'144}})
    ->Iterations(2'000'000)
    ->Repetitions(9)
    ->ReportAggregatesOnly();
BENCHMARK(begin_and_finish_in_bursts)
    ->UseManualTime()
    ->Iterations(1000)
    ->Repetitions(9)
    ->ReportAggregatesOnly();
BENCHMARK(stop_and_start_computing)->Iterations(2'000'000)->Repetitions(9)->ReportAggregatesOnly();
BENCHMARK(plain_call)->Iterations(2'000'000)->Repetitions(9)->ReportAggregatesOnly();
BENCHMARK(recorded_call)->Iterations(2'000'000)->Repetitions(9)->ReportAggregatesOnly();

}  // namespace
