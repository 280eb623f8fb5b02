#include "commlens/cli/train_transport.hpp"

#include <algorithm>
#include <cstdlib>
#include <ostream>
#include <string>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <sched.h>

#include "commlens/base/check.hpp"
#include "commlens/base/units.hpp"
#include "commlens/cli/command.hpp"

namespace commlens {

std::int64_t usable_cores() {
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof cores, &cores) == 0) {
    return CPU_COUNT(&cores);
  }
  return std::max<std::int64_t>(1, std::thread::hardware_concurrency());
}

int assistants_of(const TrainFlags& flags, std::int64_t ranks, std::int64_t threads_a_rank) {
  // One core copies at a good part of the memory's speed; more of them only take it from each other.
  constexpr std::int64_t k_most = 4;
  if (flags.progress == "off" || ranks < 2) {
    return 0;
  }
  const std::int64_t left = usable_cores() - ranks * threads_a_rank;
  const std::int64_t least = flags.progress == "on" ? 1 : 0;
  return static_cast<int>(std::clamp(left, least, std::min(ranks, k_most)));
}

bool wants_mpi_progress(const TrainFlags& flags, std::int64_t ranks) {
  if (flags.progress != "auto") {
    return flags.progress == "on";
  }
  const std::int64_t cores = usable_cores();
  const auto all = static_cast<std::int64_t>(std::thread::hardware_concurrency());
  // A launcher that binds a process gives it cores of its own.
  const std::int64_t sharing = cores < all ? 1 : std::max<std::int64_t>(1, local_ranks(ranks));
  const std::int64_t threads = flags.threads.value_or(std::max<std::int64_t>(1, cores / sharing));
  return cores >= sharing * (threads + 1);
}

std::shared_ptr<CallWatch> watch_of(const TrainFlags& flags, CallBoard board, Console& console,
                                    std::function<void()> clean_up) {
  const Result<std::chrono::nanoseconds> timeout = parse_duration(flags.timeout);
  COMMLENS_CHECK(timeout.has_value(), "check_flags has read it");
  WatchOptions options{.timeout = *timeout, .give_up = {}, .grace = std::min(*timeout, WatchOptions().grace)};
  options.give_up = [&console, clean_up = std::move(clean_up)](const std::string& reason) {
    if (clean_up) {
      clean_up();
    }
    console.out << std::flush;
    console.err << fmt::format("commlens: {}\n", reason) << std::flush;
    std::_Exit(static_cast<int>(ExitCode::system_failed));  // a thread that is stuck cannot be ended
  };
  return CallWatch::make(std::move(board), std::move(options));
}

}  // namespace commlens
