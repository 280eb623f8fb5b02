#include "commlens/app/tune.hpp"

#include <algorithm>
#include <exception>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "commlens/app/free_memory.hpp"
#include "commlens/app/launch_bursts.hpp"
#include "commlens/app/launch_pace.hpp"
#include "commlens/app/launcher.hpp"
#include "commlens/app/train_transport.hpp"
#include "commlens/app/tune_files.hpp"
#include "commlens/app/tune_launches.hpp"
#include "commlens/app/version.hpp"
#include "commlens/transport/call_board.hpp"
#include "commlens/transport/call_watch.hpp"
#include "commlens/transport/mpi_world.hpp"
#include "commlens/transport/thread_ranks.hpp"

namespace commlens {
namespace {

/// Why a rank of the job cannot be timed. Ranks whose groups are larger than the job are left out later.
Result<void> check_tune_request(const TuneRequest& request) {
  if (!(request.least_gain >= 0 && request.least_gain < 1)) {
    return failure("--min-gain: a share of the default's time, from 0 to below 1 (5% is 0.05)");
  }
  if (request.transport == Transport::nccl) {
    return failure("--transport nccl: its algorithms cannot be timed yet; use threads or mpi");
  }
  constexpr std::int64_t k_least_rounds = 60;
  if (request.most_rounds < k_least_rounds) {
    return failure(fmt::format("a choice needs {} rounds, half of them for its report", k_least_rounds));
  }
  if (request.transport == Transport::mpi && request.launches != 1) {
    return failure(
        "--launches: mpirun starts the ranks, so a job over MPI is one launch; run it several times with "
        "--append FILE");
  }
  if (request.launches > 1 && request.launch_every < k_least_launch_distance) {
    return failure(fmt::format(
        "--launch-every: launches that begin less than {} ms apart share one state of the machine "
        "and show nothing of others; give 500ms",
        k_least_launch_distance.count()));
  }
  return request.launches >= 1 ? Result<void>() : failure("--launches must be above 0");
}

Result<ModelMessages> read_messages(const TuneRequest& request) {
  MessagesRequest messages = request.messages;
  messages.events = request.events;
  return model_messages(messages);
}

Result<void> check_tune_memory(const ModelMessages& messages, std::int64_t job_ranks) {
  return check_free_memory(tuned_memory(messages, job_ranks, local_ranks(job_ranks)),
                           "time the messages on fewer ranks of this machine");
}

void warn_of_left_out(const Events& events, const TunedMessages& found) {
  for (const auto& [reason, calls] : found.left_out) {
    events.warn(fmt::format("left out, {:.6g} calls an iteration: {}", calls, reason));
  }
  const auto is_short = [](const TunedMessage& message) {
    constexpr std::size_t k_least = 60;
    return std::any_of(message.variants.begin(), message.variants.end(),
                       [](const tune::Variant& variant) { return variant.times_s.size() < k_least; });
  };
  const auto few = std::count_if(found.messages.begin(), found.messages.end(), is_short);
  if (few > 0 && !found.was_stopped) {
    events.warn(
        fmt::format("{} of {} messages were timed in fewer than 60 rounds with some algorithm, which gets "
                    "no rule then; raise --time",
                    few, found.messages.size()));
  }
}

tune::SelectionOptions selection_options(const TuneRequest& request) {
  return {.least_gain = request.least_gain, .seed = request.seed};
}

/// Times on one rank of the job; the first rank gets the result.
TunedMessages tune_on(Communicator& world, const ModelMessages& messages, const TuneRequest& request,
                      std::uint64_t seed) {
  TuneRoundOptions options{.selection = selection_options(request),
                           .seed = seed,
                           .time = request.time,
                           .most_rounds = request.most_rounds,
                           .stop_requested = request.stop_requested};
  std::optional<Task> task;
  std::int64_t reported = 0;
  if (world.rank() == GroupRank{0}) {
    options.progress = [&](std::int64_t done, std::int64_t rows) {
      if (!task) {
        task.emplace(request.events, "timing", rows);
      }
      task->add(done - std::exchange(reported, done));
    };
  }
  return tuned_messages(world, messages, options);
}

std::unique_ptr<Communicator> decorated(const TuneRequest& request, std::unique_ptr<Communicator> world) {
  return request.decorate ? request.decorate(std::move(world)) : std::move(world);
}

Result<TuneResult> tuning_concluded(const TuneRequest& request, TuneResult result) {
  if (!result.reports) {
    return result;
  }
  result.messages = result.messages.empty() ? "messages" : result.messages;
  result.seed = request.seed;
  result.least_gain = request.least_gain;
  result.tuned.timed_launches = std::ssize(result.launches);
  warn_of_left_out(request.events, result.tuned);
  if (result.tuned.was_stopped) {
    return result;  // rounds that are missing decide nothing; files of an earlier run stay as they are
  }
  if (result.tuned.messages.empty()) {
    return failure("no message of the iteration has algorithms to choose from");
  }
  if (request.append.empty()) {
    decide_over(result.tuned, result.launches, selection_options(request));
  } else if (const Result<void> added = append_launches(request.append, result, selection_options(request));
             !added) {
    return tl::unexpected(added.error());
  }
  return write_rule_files(request.files, result).map([&](std::vector<std::string> files) {
    result.written = std::move(files);
    return std::move(result);
  });
}

/// The messages, and whether threads can make them.
Result<ModelMessages> messages_of_threads(const TuneRequest& request) {
  if (launched_ranks() > 1) {
    return failure(
        "--transport threads: each process of this job would time threads of its own; add "
        "--transport mpi, or leave the launcher out");
  }
  return check_rule_files(request)
      .and_then([&] { return check_library(request.files, "", ""); })
      .and_then([&] { return read_messages(request); })
      .and_then([&](ModelMessages messages) -> Result<ModelMessages> {
        constexpr std::int64_t k_most_threads = 1024;
        if (messages.job_ranks > k_most_threads) {
          return failure(
              fmt::format("{} ranks are too many for threads of one process; start fewer with mpirun and "
                          "--transport mpi",
                          messages.job_ranks));
        }
        return check_tune_memory(messages, messages.job_ranks).map([&] { return std::move(messages); });
      });
}

/// New threads, communicators and buffers.
TunedMessages launched_on_threads(const ModelMessages& messages, const TuneRequest& request,
                                  std::uint64_t seed) {
  TunedMessages launched;
  const auto watch = watch_of({request.timeout, request.give_up}, CallBoard::of_threads(messages.job_ranks));
  run_thread_ranks(messages.job_ranks, [&](std::unique_ptr<Communicator> own) {
    const std::unique_ptr<Communicator> world = watch->watched(decorated(request, std::move(own)));
    const bool is_first = world->rank() == GroupRank{0};
    TunedMessages found = tune_on(*world, messages, request, seed);
    if (is_first) {
      launched = std::move(found);
    }
  });
  return launched;
}

/// Fails where launches could not be added to the file, before anything is timed.
Result<void> launches_of_file(const TuneRequest& request, const TuneResult& planned) {
  return request.append.empty() ? Result<void>()
                                : tune_launches_in(request.append, planned).map([](const auto&) {});
}

Result<TuneResult> tune_threads(const TuneRequest& request) {
  return messages_of_threads(request).and_then([&](const ModelMessages& messages) {
    TuneResult result{.messages = messages.source,
                      .transport = "threads",
                      .library = fmt::format("threads of commlens {}", k_version),
                      .ranks = messages.job_ranks,
                      .classes = messages.classes};
    return launches_of_file(request, result).and_then([&] {
      const LaunchClock clock;
      std::int64_t due = clock.now();
      for (std::int64_t launch = 0; launch < request.launches && !result.tuned.was_stopped; ++launch) {
        const std::int64_t began = waited_until(clock, due, request.stop_requested);
        due = began + request.launch_every.count();
        const std::uint64_t seed = request.seed + static_cast<std::uint64_t>(launch);
        result.tuned = launched_on_threads(messages, request, seed);
        result.launches.push_back(tune_launch_of(result.tuned, seed, began));
      }
      return tuning_concluded(request, std::move(result));
    });
  });
}

TuneResult refused_elsewhere() {
  TuneResult result;
  result.reports = false;
  result.was_refused = true;
  return result;
}

/// What every rank has alike, before the ranks are in touch, is for the first one to say.
Result<TuneResult> said_once(const Error& error) {
  return launched_ranks() > 1 && rank_of_process() > 0 ? Result<TuneResult>(refused_elsewhere())
                                                       : tl::unexpected(error);
}

TuneResult planned_over_mpi(const ModelMessages& messages, const TunableMpiWorld& opened,
                            const Communicator& world) {
  return {.reports = world.rank() == GroupRank{0},
          .messages = messages.source,
          .transport = "mpi",
          .library = opened.version,
          .ranks = world.size(),
          .classes = messages.classes};
}

/// The messages as one process of the job has them. The first one writes the files.
Result<ModelMessages> messages_of_process(const TuneRequest& request, const TunableMpiWorld& opened,
                                          const Communicator& world) {
  const bool is_first = world.rank() == GroupRank{0};
  return (is_first ? check_rule_files(request) : Result<void>())
      .and_then([&] { return check_library(request.files, opened.library, opened.version); })
      .and_then([&] { return read_messages(request); })
      .and_then([&](ModelMessages messages) {
        return check_tune_memory(messages, world.size())
            .and_then([&] {
              return is_first ? launches_of_file(request, planned_over_mpi(messages, opened, world))
                              : Result<void>();
            })
            .map([&] { return std::move(messages); });
      });
}

Result<TuneResult> tune_mpi(const TuneRequest& request) {
  Result<TunableMpiWorld> opened = open_tunable_mpi_world(request.mpi);
  if (!opened) {
    return said_once(opened.error());
  }
  const auto watch = watch_of({request.timeout, request.give_up}, CallBoard::of_processes(*opened->world));
  const std::unique_ptr<Communicator> world = watch->watched(decorated(request, std::move(opened->world)));
  try {
    const Result<ModelMessages> messages = messages_of_process(request, *opened, *world);
    const Result<bool> ready =
        all_ready(*world, messages ? Result<void>() : tl::unexpected(messages.error()));
    return ready.and_then([&](bool all_are) -> Result<TuneResult> {
      if (!all_are) {
        return refused_elsewhere();
      }
      TuneResult result = planned_over_mpi(*messages, *opened, *world);
      const std::int64_t began = LaunchClock().now();
      result.tuned = tune_on(*world, *messages, request, request.seed);
      result.launches.push_back(tune_launch_of(result.tuned, request.seed, began));
      return tuning_concluded(request, std::move(result));
    });
  } catch (const std::exception& error) {
    world->abort(error.what());  // the others would wait for this rank forever
    throw;
  }
}

}  // namespace

Result<TuneResult> tune_calls(const TuneRequest& request) {
  if (const Result<void> usable = check_tune_request(request); !usable) {
    return said_once(usable.error());
  }
  return request.transport == Transport::mpi ? tune_mpi(request) : tune_threads(request);
}

}  // namespace commlens
