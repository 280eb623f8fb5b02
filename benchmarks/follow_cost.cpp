// What following a job costs the follower.
//   follow_cost read DIRECTORY                   one look at a whole recording (recorded_trace makes some):
//   calls
//                                                a second of processor time, and of looks that find nothing
//                                                new
//   follow_cost follow DIRECTORY CALLS SECONDS INTERVAL_MS
//                                                a process records so many calls a second of 8 ranks, another
//                                                follows them: its share of a core and its memory
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string_view>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "commlens/base/check.hpp"
#include "commlens/base/text.hpp"
#include "commlens/live/folder_follower.hpp"
#include "commlens/trace/recorder.hpp"

namespace {

using namespace commlens;

double processor_seconds() {
  rusage use = {};
  getrusage(RUSAGE_SELF, &use);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(use.ru_utime) + seconds(use.ru_stime);
}

/// The largest resident memory of the process so far, in MiB.
double most_memory() {
  rusage use = {};
  getrusage(RUSAGE_SELF, &use);
  return static_cast<double>(use.ru_maxrss) / 1024;
}

void poll(FolderFollower& follower) {
  COMMLENS_CHECK(follower.poll().has_value(), "the recording can be followed");
}

void read(const std::filesystem::path& directory) {
  double before = processor_seconds();
  FolderFollower follower(directory);
  poll(follower);
  const double took = processor_seconds() - before;
  const auto calls = static_cast<double>(follower.view().totals.calls);
  fmt::print(
      "{} calls of {} ranks: {:.2f} s of processor time, {:.1f} ns a call, {:.1f} million calls/s, {:.0f} "
      "MiB\n",
      with_commas(follower.view().totals.calls), follower.view().ranks.size(), took, took * 1e9 / calls,
      calls / took / 1e6, most_memory());
  constexpr int polls = 100;
  before = processor_seconds();
  for (int done = 0; done < polls; ++done) {
    poll(follower);
  }
  fmt::print("a look that finds nothing new: {:.0f} us, {:.0f} MiB\n",
             (processor_seconds() - before) * 1e6 / polls, most_memory());
}

constexpr std::int64_t k_ranks = 8;

/// Records at a rate, evenly, until it is over.
void record(const std::filesystem::path& directory, std::int64_t calls, std::chrono::seconds length) {
  std::vector<std::unique_ptr<Recorder>> recorders;
  std::vector<Rank> all;
  for (std::int64_t rank = 0; rank < k_ranks; ++rank) {
    recorders.push_back(std::make_unique<Recorder>(directory, Rank{rank}));
    all.push_back(Rank{rank});
  }
  const auto begin = std::chrono::steady_clock::now();
  const auto end = begin + length;
  std::int64_t done = 0;
  for (auto now = begin; now < end; now = std::chrono::steady_clock::now()) {
    const double seconds = std::chrono::duration<double>(now - begin).count();
    for (; done < static_cast<std::int64_t>(seconds * static_cast<double>(calls)); done += k_ranks) {
      for (const auto& recorder : recorders) {
        recorder->finish(recorder->begin({.kind = CommKind::all_reduce,
                                          .dtype = DType::bf16,
                                          .group = recorder->group(all, Axis::dp, CommunicatorId{1}),
                                          .input = Elements{1024},
                                          .output = Elements{1024},
                                          .blocking = true,
                                          .tag = {}}));
      }
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void follow(const std::filesystem::path& directory, std::chrono::seconds length,
            std::chrono::milliseconds interval) {
  FolderFollower follower(directory);
  const auto end = std::chrono::steady_clock::now() + length;
  const double before = processor_seconds();
  while (std::chrono::steady_clock::now() < end) {
    poll(follower);
    std::this_thread::sleep_for(interval);
  }
  fmt::print("{} calls in {} s, looked at every {} ms: {:.2f} % of a core, {:.1f} MiB\n",
             with_commas(follower.view().totals.calls), length.count(), interval.count(),
             100 * (processor_seconds() - before) / static_cast<double>(length.count()), most_memory());
}

}  // namespace

int main(int argc, char** argv) {
  const std::filesystem::path directory = argc > 2 ? argv[2] : "";
  if (argc == 3 && std::string_view(argv[1]) == "read") {
    read(directory);
    return 0;
  }
  if (argc != 6 || std::string_view(argv[1]) != "follow") {
    fmt::print(stderr, "follow_cost read DIRECTORY | follow DIRECTORY CALLS SECONDS INTERVAL_MS\n");
    return 2;
  }
  const std::chrono::seconds length(std::atoll(argv[4]));
  create_recording(directory, {.producer = "follow_cost", .framework = {}, .ranks = k_ranks});
  const pid_t job = fork();
  if (job == 0) {
    record(directory, std::atoll(argv[3]), length);
    return 0;
  }
  follow(directory, length, std::chrono::milliseconds(std::atoll(argv[5])));
  waitpid(job, nullptr, 0);
  return 0;
}
