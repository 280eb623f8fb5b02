#include "commlens/app/replay.hpp"

#include <algorithm>
#include <exception>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "commlens/app/free_memory.hpp"
#include "commlens/app/job_recording.hpp"
#include "commlens/app/job_source.hpp"
#include "commlens/app/job_transports.hpp"
#include "commlens/app/launcher.hpp"
#include "commlens/app/output_place.hpp"
#include "commlens/app/replay_comparison.hpp"
#include "commlens/app/train_transport.hpp"
#include "commlens/app/version.hpp"
#include "commlens/bench/replay_plan.hpp"
#include "commlens/bench/replay_run.hpp"
#include "commlens/frameworks/read_config.hpp"
#include "commlens/trace/recorder.hpp"
#include "commlens/trace/trace_file.hpp"
#include "commlens/transport/thread_ranks.hpp"

namespace commlens {
namespace {

using std::chrono::nanoseconds;

constexpr std::int64_t k_most_predicted_iterations = 1000;

/// What is replayed, checked.
struct PreparedReplay {
  Trace original;
  bench::ReplaySelection selection;
  bench::ReplayPlan plan;  // refers to the original's tags, which stay where they are when it is moved
  ReplayPacing pacing = ReplayPacing::gaps;
};

Result<void> check_replay_request(const ReplayRequest& request) {
  if (request.transport == Transport::nccl) {
    return failure("--transport nccl: a replay moves host memory; use --transport threads or mpi");
  }
  if (!request.mpi.empty() && request.transport == Transport::threads) {
    return failure("--mpi: the ranks are threads of this process; add --transport mpi");
  }
  if (request.transport == Transport::threads && launched_ranks() > 1) {
    return failure(fmt::format(
        "the launcher has started {} processes, and each would replay alone; add --transport mpi, "
        "or leave the launcher out",
        launched_ranks()));
  }
  if (!(request.scale_compute >= 0 && request.scale_compute <= 1e6)) {
    return failure(
        fmt::format("--scale-compute {}: give a number from 0 to 1,000,000", request.scale_compute));
  }
  const bool has_gaps = request.pacing != ReplayPacing::back_to_back;
  if (!has_gaps && (request.scale_compute != 1 || request.sleeps)) {
    return failure(fmt::format("--back-to-back leaves no gaps: leave {} out",
                               request.sleeps ? "--sleep" : "--scale-compute"));
  }
  if (request.repeat < 1) {
    return failure(fmt::format("--repeat {}: at least one run", request.repeat));
  }
  return {};
}

Result<std::vector<Iteration>> iterations_of(const ReplayRequest& request, const Plan& plan) {
  if (!request.iterations) {
    return std::vector<Iteration>{plan.steady_iteration()};
  }
  const auto [first, last] = *request.iterations;
  if (std::int64_t{last} - first >= k_most_predicted_iterations) {
    return failure(
        fmt::format("--iteration {}: {} is a configuration; say which iterations are predicted, at "
                    "most {}",
                    range_text(*request.iterations), request.trace, k_most_predicted_iterations));
  }
  std::vector<Iteration> iterations;
  for (std::int64_t iteration = first; iteration <= last; ++iteration) {
    iterations.push_back(static_cast<Iteration>(iteration));
  }
  return iterations;
}

/// `launched`: how many ranks a launcher started.
Result<Trace> predicted_trace(const ReplayRequest& request, const Events& events,
                              std::optional<std::int64_t> launched) {
  return read_config(files_of(request.trace), request.framework).and_then([&](const Job& job) {
    Overrides overrides = request.overrides;
    if (launched && !overrides.gives_world()) {
      overrides.ranks = launched;
    }
    return Planner(events).plan(job, overrides).and_then([&](const Plan& plan) {
      return iterations_of(request, plan).map([&](const std::vector<Iteration>& iterations) {
        return plan.trace_of(iterations);
      });
    });
  });
}

Result<Trace> original_of(const ReplayRequest& request, const Events& events,
                          std::optional<std::int64_t> launched) {
  if (!names_trace(request.trace)) {
    return predicted_trace(request, events, launched);
  }
  Overrides layout = request.overrides;
  layout.ranks.reset();  // compared with the trace's
  if (layout != Overrides() || !request.framework.empty()) {
    return failure(
        fmt::format("{} is a trace: --framework and the layout flags are for configurations; leave them out",
                    request.trace));
  }
  return open_trace(events, request.trace).map([&](Trace trace) {
    warn_of_lost_calls(events, request.trace, trace);
    return trace;
  });
}

Result<void> check_ranks_of_replay(const ReplayRequest& request, const bench::ReplayPlan& plan,
                                   std::optional<std::int64_t> launched) {
  const auto ranks = static_cast<std::int64_t>(plan.ranks.size());
  const std::optional<std::int64_t> asked = request.overrides.ranks;
  if (asked && *asked != ranks) {
    return failure(fmt::format("--ranks {}: the trace has {} ranks, and a replay makes the calls of each",
                               *asked, ranks));
  }
  if (launched && *launched != ranks) {
    return failure(
        fmt::format("the trace has {} ranks, the launcher started {}; change mpirun -n", ranks, *launched));
  }
  constexpr std::int64_t most_threads = 1024;
  if (!launched && ranks > most_threads) {
    return failure(
        fmt::format("{} ranks are too many for threads of one process; start them with mpirun and "
                    "--transport mpi",
                    ranks));
  }
  Bytes pools;
  for (const bench::RankProgram& program : plan.ranks) {
    pools += program.pool;
  }
  const std::optional<Bytes> available = free_memory();
  if (!launched && available && pools > *available) {
    return failure(
        fmt::format("the buffers of {} ranks take {}, this machine has {} left; start ranks on more "
                    "machines with mpirun and --transport mpi",
                    ranks, to_text(pools), to_text(*available)));
  }
  return {};
}

/// Without times calls follow one another.
Result<ReplayPacing> pacing_of(const ReplayRequest& request, const bench::ReplayPlan& plan) {
  if (plan.has_times || request.pacing == ReplayPacing::back_to_back) {
    return request.pacing;
  }
  const std::string_view flag = request.pacing == ReplayPacing::timed ? "--timed"
                                : request.scale_compute != 1          ? "--scale-compute"
                                : request.sleeps                      ? "--sleep"
                                                                      : "";
  if (!flag.empty()) {
    return failure(fmt::format("{}: {} has no times of single calls; leave it out", flag, request.trace));
  }
  return ReplayPacing::back_to_back;
}

Result<void> check_places(const ReplayRequest& request) {
  return check_recording_directory(request.output).and_then([&] {
    return check_apart("-o", request.output, files_of(request.trace));
  });
}

Result<PreparedReplay> prepare_replay(const ReplayRequest& request, const Events& events,
                                      std::optional<std::int64_t> launched) {
  return original_of(request, events, launched).and_then([&](Trace original) {
    PreparedReplay prepared{std::move(original), {}, {}, request.pacing};
    prepared.selection.iterations = request.iterations;
    prepared.selection.skip_other = request.skip_other;
    prepared.selection.late_waits = request.late_waits;
    return bench::replay_plan(prepared.original, prepared.selection)
        .map_error([&](const Error& error) {
          return Error{fmt::format("{}: {}", shown_name(request.trace), error.message)};
        })
        .and_then([&](bench::ReplayPlan plan) {
          prepared.plan = std::move(plan);
          return check_ranks_of_replay(request, prepared.plan, launched);
        })
        .and_then([&] { return pacing_of(request, prepared.plan); })
        .map([&](ReplayPacing pacing) {
          prepared.pacing = pacing;
          return std::move(prepared);
        });
  });
}

bench::PlayOptions play_options(const ReplayRequest& request, ReplayPacing pacing, std::int64_t ranks_here) {
  bench::PlayOptions options;
  options.pace = pacing == ReplayPacing::gaps           ? bench::ReplayPace::gaps
                 : pacing == ReplayPacing::back_to_back ? bench::ReplayPace::back_to_back
                                                        : bench::ReplayPace::timed;
  options.scale_compute = request.scale_compute;
  options.sleeps = request.sleeps;
  options.yields = ranks_here > usable_cores();
  return options;
}

/// One rank's runs; how long each took.
std::vector<nanoseconds> play(const PreparedReplay& prepared, const ReplayRequest& request,
                              const bench::PlayOptions& options, Communicator& world) {
  bench::ReplayRank rank(prepared.plan, world);
  Recorder recorder(request.output, Rank{world.rank().value}, {.parts = RecorderParts::calls_and_compute});
  std::vector<nanoseconds> runs;
  for (std::int64_t run = 1; run < request.repeat; ++run) {
    runs.push_back(rank.play(options));
  }
  runs.push_back(rank.play(options, recorder));
  return runs;
}

Result<JobRecording> start_replay_recording(const PreparedReplay& prepared, const ReplayRequest& request,
                                            bool progress) {
  const std::string& description = prepared.original.provenance.description;
  return JobRecording::started(request.output,
                               {.producer = fmt::format("commlens {}", k_version),
                                .description = fmt::format("replay of {}{}{}", shown_name(request.trace),
                                                           description.empty() ? "" : ": ", description),
                                .framework = prepared.original.provenance.framework,
                                .ranks = static_cast<std::int64_t>(prepared.plan.ranks.size()),
                                .compute = true,
                                .progress = progress,
                                .is_replay = true});
}

ReplayResult concluded(const PreparedReplay& prepared, const ReplayRequest& request, JobRecording& recording,
                       std::vector<nanoseconds> runs) {
  recording.settle();
  finish_recording(request.output);
  const Result<Trace> recorded = read_trace(request.output);
  if (!recorded) {
    throw SystemError(fmt::format("the recording cannot be read: {}", recorded.error().message));
  }
  ReplayResult result;
  result.trace = shown_name(request.trace);
  result.source = prepared.original.provenance.source;
  result.ranks = static_cast<std::int64_t>(prepared.plan.ranks.size());
  result.calls = prepared.plan.calls();
  result.pacing = prepared.pacing;
  result.scale_compute = request.scale_compute;
  result.has_times = prepared.plan.has_times;
  result.transport = request.transport;
  result.skipped_other = prepared.plan.skipped_other;
  result.later_waits = prepared.plan.later_waits;
  result.shared_sizes = prepared.plan.shared_sizes;
  result.dropped = recorded->provenance.recorder ? recorded->provenance.recorder->dropped : 0;
  result.runs = std::move(runs);
  result.recording = request.output;
  add_comparison({prepared.original, prepared.plan, prepared.selection}, *recorded, result);
  return result;
}

Result<ReplayResult> replay_on_threads(const ReplayRequest& request) {
  const Result<PreparedReplay> prepared =
      check_places(request).and_then([&] { return prepare_replay(request, request.events, std::nullopt); });
  if (!prepared) {
    return tl::unexpected(prepared.error());
  }
  const auto ranks = static_cast<std::int64_t>(prepared->plan.ranks.size());
  const Result<std::optional<TransportTable>> table = table_of_threads(request.transports, ranks);
  if (!table) {
    return tl::unexpected(table.error());
  }
  const ThreadOptions threads{.assistants = assistants_of(request.progress, ranks, 1)};
  Result<JobRecording> recording = start_replay_recording(*prepared, request, threads.assistants > 0);
  if (!recording) {
    return tl::unexpected(recording.error());
  }
  std::vector<nanoseconds> runs;
  {
    const Task task(request.events, fmt::format("replaying {}", shown_name(request.trace)), 0);
    const auto settle = [&] { const JobRecording settled(std::move(*recording)); };
    const auto watch = watch_of({request.timeout, request.give_up}, CallBoard::of_threads(ranks), settle);
    const bench::PlayOptions options = play_options(request, prepared->pacing, ranks);
    const auto play_rank = [&](std::unique_ptr<Communicator> own) {
      const std::unique_ptr<Communicator> world =
          watch->watched(*over_table(std::move(own), "threads", *table, request.events));
      std::vector<nanoseconds> own_runs = play(*prepared, request, options, *world);
      if (world->rank().value == 0) {
        runs = std::move(own_runs);
      }
    };
    run_thread_ranks(ranks, play_rank, threads);
  }
  return concluded(*prepared, request, *recording, std::move(runs));
}

ReplayResult replay_in_job(const PreparedReplay& prepared, const ReplayRequest& request,
                           std::optional<JobRecording>& recording, Communicator& world) {
  const bench::PlayOptions options = play_options(request, prepared.pacing, local_ranks(world.size()));
  std::vector<nanoseconds> runs = play(prepared, request, options, world);
  world.barrier();  // all files are closed
  if (recording) {
    return concluded(prepared, request, *recording, std::move(runs));
  }
  ReplayResult result;
  result.reports = false;
  return result;
}

Result<ReplayResult> replay_over_mpi(const ReplayRequest& request) {
  Result<std::unique_ptr<Communicator>> own = open_mpi_job({.mpi = request.mpi,
                                                            .transports = request.transports,
                                                            .progress = request.progress,
                                                            .threads = 1,
                                                            .events = request.events});
  if (!own) {
    return tl::unexpected(own.error());
  }
  const bool is_first = (*own)->rank().value == 0;
  const auto watch = watch_of({request.timeout, request.give_up}, CallBoard::of_processes(**own));
  const std::unique_ptr<Communicator> world = watch->watched(std::move(*own));
  try {
    const Result<PreparedReplay> prepared =
        prepare_replay(request, is_first ? request.events : Events(), world->size());
    Result<void> is_ready = prepared ? Result<void>() : tl::unexpected(prepared.error());
    std::optional<JobRecording> recording;
    if (is_first && prepared) {  // which alone looks at the place: it is in use from here on
      Result<JobRecording> started = check_places(request).and_then(
          [&] { return start_replay_recording(*prepared, request, world->makes_progress()); });
      if (started) {
        recording.emplace(std::move(*started));
      } else {
        is_ready = tl::unexpected(started.error());
      }
    }
    return all_ready(*world, is_ready).map([&](bool all_are) {
      if (all_are) {
        return replay_in_job(*prepared, request, recording, *world);
      }
      ReplayResult refused;
      refused.reports = false;
      refused.was_refused = true;
      return refused;
    });
  } catch (const std::exception& error) {
    world->abort(error.what());  // the others would wait for this rank forever
    throw;
  }
}

}  // namespace

Result<ReplayResult> replay(const ReplayRequest& request) {
  return check_replay_request(request).and_then([&] {
    return request.transport == Transport::mpi ? replay_over_mpi(request) : replay_on_threads(request);
  });
}

}  // namespace commlens
