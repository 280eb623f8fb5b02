// Writes a trace through the recorder, to measure its readers: all ranks make the same calls, an all_reduce
// of a pair of ranks and one of all in turn, each of a jittered length.
//   recorded_trace CALLS RANKS CALLS_OF_AN_ITERATION DIRECTORY     32 bytes a call; the directory stays there
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string_view>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "commlens/base/check.hpp"
#include "commlens/base/text.hpp"
#include "commlens/trace/recorder.hpp"

namespace {

using namespace commlens;

struct Job {
  std::int64_t calls = 0;
  std::int64_t ranks = 0;
  std::int64_t calls_of_an_iteration = 0;
};

/// Numbers below 2^16 of a seed.
class Jitter {
 public:
  explicit Jitter(std::uint64_t seed) : state_(seed) {}
  std::int64_t next() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return static_cast<std::int64_t>(state_ & 0xFFFFU);
  }

 private:
  std::uint64_t state_;
};

/// Calls in turn on the pair of a rank and on all ranks, each of another size.
std::vector<RecordedCall> calls_of(Recorder& recorder, Rank rank, std::int64_t ranks) {
  const Rank first{rank.value - rank.value % 2};
  const std::vector<Rank> pair = {first, Rank{std::min(first.value + 1, ranks - 1)}};
  std::vector<Rank> all;
  for (std::int64_t member = 0; member < ranks; ++member) {
    all.push_back(Rank{member});
  }
  const std::array groups = {recorder.group(pair, Axis::tp), recorder.group(all, Axis::world)};
  std::vector<RecordedCall> calls;
  constexpr std::int64_t sizes = 16;
  for (std::int64_t call = 0; call < sizes; ++call) {
    const Elements elements{std::int64_t{1024} << call};
    calls.push_back({.kind = CommKind::all_reduce,
                     .dtype = DType::bf16,
                     .group = groups[static_cast<std::size_t>(call % 2)],
                     .input = elements,
                     .output = elements,
                     .tag = "layer"});
  }
  return calls;
}

void record(const std::filesystem::path& directory, Rank rank, const Job& job) {
  Recorder recorder(directory, rank);
  const std::vector<RecordedCall> calls = calls_of(recorder, rank, job.ranks);
  Jitter jitter(0x9E3779B97F4A7C15U + static_cast<std::uint64_t>(rank.value));
  constexpr std::int64_t step = 200'000;
  constexpr std::int64_t calls_before_a_rest = 1 << 14;
  const std::int64_t own = job.calls / job.ranks;
  for (std::int64_t call = 0; call < own; ++call) {
    if (call % calls_before_a_rest == 0) {  // the file grows beside this, no faster than a disk writes
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    recorder.set_iteration(static_cast<Iteration>(call / job.calls_of_an_iteration));
    const Recorder::Slot slot = recorder.begin(calls[static_cast<std::size_t>(call) % calls.size()]);
    const std::chrono::nanoseconds start(1 + call * step + jitter.next());
    recorder.finish(slot, Times{start, start, std::chrono::nanoseconds(call * step + 150'000)});
  }
  COMMLENS_CHECK(recorder.dropped() == 0, "the disk has room and is fast enough for every call");
}

}  // namespace

int main(int argc, char** argv) {
  std::array<std::int64_t, 3> numbers{};
  for (std::size_t at = 0; at < numbers.size(); ++at) {
    const Result<std::int64_t> number = parse_integer(argc == 5 ? argv[at + 1] : "0");
    numbers[at] = number.value_or(0);
  }
  const Job job{numbers[0], numbers[1], numbers[2]};
  if (job.ranks < 2 || job.calls < job.ranks || job.calls_of_an_iteration < 1) {
    std::fputs("usage: recorded_trace CALLS RANKS CALLS_OF_AN_ITERATION DIRECTORY, at least 2 ranks\n",
               stderr);
    return 2;
  }
  const std::filesystem::path directory = argv[4];
  create_recording(directory, {.producer = "recorded_trace", .ranks = job.ranks});
  for (Rank rank{0}; rank.value < job.ranks; ++rank.value) {
    record(directory, rank, job);
  }
  finish_recording(directory);
  return 0;
}
