#include "commlens/app/train_transport.hpp"

#include <algorithm>
#include <string>
#include <thread>
#include <utility>

#include <sched.h>

#include "commlens/app/launcher.hpp"

namespace commlens {

std::int64_t usable_cores() {
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof cores, &cores) == 0) {
    return CPU_COUNT(&cores);
  }
  return std::max<std::int64_t>(1, std::thread::hardware_concurrency());
}

int assistants_of(const TrainRequest& request, std::int64_t ranks, std::int64_t threads_a_rank) {
  // One core copies at a good part of the memory bandwidth; more cores only compete for it.
  constexpr std::int64_t k_most = 4;
  if (request.progress == CallProgress::off || ranks < 2) {
    return 0;
  }
  const std::int64_t left = usable_cores() - ranks * threads_a_rank;
  const std::int64_t least = request.progress == CallProgress::on ? 1 : 0;
  return static_cast<int>(std::clamp(left, least, std::min(ranks, k_most)));
}

bool wants_mpi_progress(const TrainRequest& request, std::int64_t ranks) {
  if (request.progress != CallProgress::automatic) {
    return request.progress == CallProgress::on;
  }
  const std::int64_t cores = usable_cores();
  const auto all = static_cast<std::int64_t>(std::thread::hardware_concurrency());
  // A launcher that binds a process reserves cores for it.
  const std::int64_t sharing = cores < all ? 1 : std::max<std::int64_t>(1, local_ranks(ranks));
  const std::int64_t threads = request.threads.value_or(std::max<std::int64_t>(1, cores / sharing));
  return cores >= sharing * (threads + 1);
}

std::shared_ptr<CallWatch> watch_of(const TrainRequest& request, CallBoard board,
                                    std::function<void()> clean_up) {
  const std::chrono::nanoseconds timeout = request.timeout;
  WatchOptions options{.timeout = timeout, .give_up = {}, .grace = std::min(timeout, WatchOptions().grace)};
  if (request.give_up) {
    options.give_up = [give_up = request.give_up, clean_up = std::move(clean_up)](const std::string& reason) {
      if (clean_up) {
        clean_up();
      }
      give_up(reason);
    };
  }
  return CallWatch::make(std::move(board), std::move(options));
}

}  // namespace commlens
