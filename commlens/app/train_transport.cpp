#include "commlens/app/train_transport.hpp"

#include <algorithm>
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

int assistants_of(CallProgress progress, std::int64_t ranks, std::int64_t threads_a_rank) {
  // One core copies at a good part of the memory bandwidth; more cores only compete for it.
  constexpr std::int64_t k_most = 4;
  if (progress == CallProgress::off || ranks < 2) {
    return 0;
  }
  const std::int64_t left = usable_cores() - ranks * threads_a_rank;
  const std::int64_t least = progress == CallProgress::on ? 1 : 0;
  return static_cast<int>(std::clamp(left, least, std::min(ranks, k_most)));
}

bool wants_mpi_progress(CallProgress progress, std::int64_t ranks, std::optional<std::int64_t> threads) {
  if (progress != CallProgress::automatic) {
    return progress == CallProgress::on;
  }
  const std::int64_t cores = usable_cores();
  const auto all = static_cast<std::int64_t>(std::thread::hardware_concurrency());
  // A launcher that binds a process reserves cores for it.
  const std::int64_t sharing = cores < all ? 1 : std::max<std::int64_t>(1, local_ranks(ranks));
  const std::int64_t busy = threads.value_or(std::max<std::int64_t>(1, cores / sharing));
  return cores >= sharing * (busy + 1);
}

std::shared_ptr<CallWatch> watch_of(const WaitLimit& limit, CallBoard board, std::function<void()> clean_up) {
  const std::chrono::nanoseconds timeout = limit.timeout;
  WatchOptions options{.timeout = timeout, .give_up = {}, .grace = std::min(timeout, WatchOptions().grace)};
  if (limit.give_up) {
    options.give_up = [give_up = limit.give_up, clean_up = std::move(clean_up)](const std::string& reason) {
      if (clean_up) {
        clean_up();
      }
      give_up(reason);
    };
  }
  return CallWatch::make(std::move(board), std::move(options));
}

Result<bool> all_ready(Communicator& world, const Result<void>& own) {
  const auto ranks = static_cast<std::int32_t>(world.size());
  const auto rank = static_cast<std::int32_t>(world.rank().value);
  std::int32_t first_failed = own ? 0 : ranks - rank;  // the largest is the first rank's
  world.run({.kind = CommKind::all_reduce,
             .dtype = DType::int32,
             .reduction = ReduceOp::max,
             .input_buffer = &first_failed,
             .output_buffer = &first_failed,
             .input = {1},
             .output = {1}});
  if (!own && first_failed == ranks - rank) {
    return tl::unexpected(own.error());
  }
  return first_failed == 0;
}

}  // namespace commlens
