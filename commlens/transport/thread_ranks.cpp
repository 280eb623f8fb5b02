#include "commlens/transport/thread_ranks.hpp"

#include <exception>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "commlens/base/check.hpp"
#include "commlens/base/result.hpp"
#include "commlens/transport/comm_threads.hpp"

namespace commlens {
namespace {

using Body = std::function<void(std::unique_ptr<Communicator> world)>;

void run_rank(const std::shared_ptr<ThreadGroup>& world, std::int64_t rank, const Body& body) {
  try {
    body(thread_communicator(world, GroupRank{rank}));
  } catch (const std::exception& error) {
    world->job().end({.rank = Rank{rank},
                      .message = error.what(),
                      .reason = fmt::format("rank {} failed: {}", rank, error.what())});
  }
}

}  // namespace

void run_thread_ranks(std::int64_t ranks, const Body& body, const ThreadOptions& options) {
  COMMLENS_CHECK(ranks >= 1, "a job has a rank");
  const auto job = std::make_shared<ThreadJob>(ranks, options.assistants);
  std::vector<Rank> members;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    members.push_back(Rank{rank});
  }
  const auto world = std::make_shared<ThreadGroup>(job, std::move(members));
  std::vector<std::thread> threads;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    try {
      threads.emplace_back(run_rank, std::cref(world), rank, std::cref(body));
    } catch (const std::system_error& error) {
      const std::string message = fmt::format("its thread cannot be started: {}", error.what());
      job->end({.rank = Rank{rank}, .message = message, .reason = message});
      break;
    }
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  if (const auto end = job->how_it_ended()) {
    throw SystemError(fmt::format("rank {}: {}", end->rank.value, end->message));
  }
}

}  // namespace commlens
