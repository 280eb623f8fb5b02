#include "commlens/app/train.hpp"

#include <exception>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "commlens/app/engine_module.hpp"
#include "commlens/app/free_memory.hpp"
#include "commlens/app/job_recording.hpp"
#include "commlens/app/job_source.hpp"
#include "commlens/app/job_text.hpp"
#include "commlens/app/job_transports.hpp"
#include "commlens/app/launcher.hpp"
#include "commlens/app/recording_check.hpp"
#include "commlens/app/trace_source.hpp"
#include "commlens/app/train_request.hpp"
#include "commlens/app/train_transport.hpp"
#include "commlens/app/version.hpp"
#include "commlens/frameworks/memory.hpp"
#include "commlens/frameworks/presets.hpp"
#include "commlens/frameworks/read_config.hpp"
#include "commlens/trace/recorder.hpp"
#include "commlens/trace/trace_file.hpp"
#include "commlens/trace/training_steps.hpp"
#include "commlens/transport/nccl_world.hpp"
#include "commlens/transport/thread_ranks.hpp"

namespace commlens {
namespace {

using engine::TrainOutcome;

/// The checked inputs of a rank.
struct Prepared {
  const engine::EngineApi* engine = nullptr;
  std::unique_ptr<engine::TokenSource> tokens;
  TrainRun run;
  std::optional<TransportTable> table;  // of the transport that trains
};

/// The overrides; the default number of ranks is that of the launcher.
Overrides overrides_for_launch(const TrainRequest& request, std::optional<std::int64_t> launched) {
  Overrides overrides = request.overrides;
  if (launched && !overrides.gives_world()) {
    overrides.ranks = launched;
  }
  return overrides;
}

Result<void> check_world(const Job& job, const TrainRequest& request, std::optional<std::int64_t> launched) {
  const std::int64_t ranks = job.layout.ranks;
  if (launched && ranks != *launched) {
    return failure(fmt::format(
        "the layout has {} ranks, the launcher started {}; change mpirun -n or --ranks", ranks, *launched));
  }
  if (!launched && request.device == "cuda" && request.transport == Transport::threads && ranks > 1) {
    return failure("--device cuda: --transport threads moves host memory; use --transport nccl");
  }
  if (request.transport == Transport::nccl && job.train.schedule == Schedule::interleaved) {
    // NCCL runs the sends and receives of a group one after the other; the ring of chunks would wait for
    // itself.
    return failure("--schedule interleaved: not over NCCL; use --schedule 1f1b");
  }
  constexpr std::int64_t most_threads = 1024;
  if (!launched && ranks > most_threads) {
    return failure(
        fmt::format("{} ranks are too many for threads of one process; start them with mpirun and "
                    "--transport mpi",
                    ranks));
  }
  return {};
}

/// Refuses a job that would run out of memory: model states that do not fit on all ranks together. The
/// estimate is for the fullest stage, so half of it must be too much.
Result<void> check_memory(const Job& job) {
  const MemoryEstimate rank = memory_per_rank(job);
  const Bytes states = rank.states();
  const std::optional<Bytes> available = free_memory();
  if (!available || states.value / 2 <= available->value / job.layout.ranks) {
    return {};
  }
  return failure(fmt::format(
      "{} ranks as threads need about {} each for parameters, gradients and optimizer, this machine has {} "
      "left for all; shrink the model (--layers, --hidden) or start ranks on more machines with mpirun and "
      "--transport mpi",
      job.layout.ranks, to_text(states), to_text(*available)));
}

std::string transport_text(const TrainRequest& request) {
  const std::string_view ranks = request.uses_mpi() ? "MPI processes" : "ranks as threads";
  return request.transport == Transport::nccl ? fmt::format("NCCL between {}", ranks) : std::string(ranks);
}

/// Replaces fused attention by eager attention, with a warning, if LibTorch lacks it.
void settle_attention(const Events& events, const engine::EngineApi& engine,
                      const engine::TrainOptions& options, Job& job) {
  if (attention_of(job) == Attention::eager) {
    return;
  }
  if (const Result<void> fused = engine.check_fused_attention(job, options); !fused) {
    events.warn(
        fmt::format("{}; training with eager attention, which keeps the scores", fused.error().message));
    job.train.attention = Attention::eager;
  }
}

/// `launched`: how many ranks an MPI launcher started.
Result<Prepared> prepare(const Events& events, const TrainRequest& request,
                         std::optional<std::int64_t> launched) {
  const Overrides overrides = overrides_for_launch(request, launched);
  if (const Result<void> taken = check_takes_config(request.config); !taken) {
    return tl::unexpected(taken.error());
  }
  Result<Job> job = read_config(request.config, "commlens");
  if (!job) {
    return tl::unexpected(job.error());
  }
  if (request.config.size() == 1 && preset(request.config.front()) && !overrides.dtype) {
    events.warn(
        fmt::format("{} is in fp16; the trainer takes bf16 for it, which needs no loss scaling; "
                    "--dtype chooses",
                    request.config.front()));
  }
  job->model.rotary_fraction = request.rotary_fraction.value_or(job->model.rotary_fraction);
  Result<Plan> plan = Planner(events, false).plan(*job, overrides);
  if (!plan) {
    return tl::unexpected(plan.error());
  }
  if (const Result<void> ok = check_world(plan->job, request, launched); !ok) {
    return tl::unexpected(ok.error());
  }
  if (const Result<void> fits = check_memory(plan->job); !launched && request.device != "cuda" && !fits) {
    return tl::unexpected(fits.error());
  }
  const Result<const engine::EngineApi*> engine = load_engine();
  if (!engine) {
    return tl::unexpected(engine.error());
  }
  Result<engine::TrainOptions> options = train_options(request, plan->job);
  if (!options) {
    return tl::unexpected(options.error());
  }
  settle_attention(events, **engine, *options, plan->job);
  if (const std::string line = not_honoured_line(plan->job); !line.empty()) {
    events.warn(line);
  }
  const ModelConfig& model = plan->job.model;
  Result<std::unique_ptr<engine::TokenSource>> tokens =
      (*engine)->open_tokens(request.data, model.sequence, model.raw_vocab, options->seed);
  if (!tokens) {
    return tl::unexpected(tokens.error());
  }
  Result<std::optional<TransportTable>> table =
      request.transport == Transport::threads
          ? table_of_threads(request.transports, plan->job.layout.ranks)
          : table_of_transports(request.transports, name_of(request.transport));
  if (!table) {
    return tl::unexpected(table.error());
  }
  Prepared prepared{*engine, std::move(*tokens), {}, std::move(*table)};
  prepared.run.options = std::move(*options);
  prepared.run.options.tokens = prepared.tokens.get();
  prepared.run.options.stop_requested = request.stop_requested;
  prepared.run.plan = std::move(*plan);
  prepared.run.transport = transport_text(request);
  prepared.run.data = prepared.tokens->description();
  if (const Result<void> ok = (*engine)->check_trainable(prepared.run.plan.job, prepared.run.options); !ok) {
    return tl::unexpected(ok.error());
  }
  return prepared;
}

/// Creates the trace directory. `progress`: whether the transport moves calls on while ranks compute. Fails
/// if another job is faster; throws SystemError.
Result<JobRecording> start_recording(const TrainRun& run, bool progress) {
  const Job& job = run.plan.job;
  return JobRecording::started(
      run.trace(), {.producer = fmt::format("commlens {}", k_version),
                    .description = fmt::format("{}; {}", parameters_text(job.model), layout_text(job)),
                    .framework = "commlens",
                    .ranks = job.layout.ranks,
                    .compute = run.options.ring_records == 0,
                    .progress = progress,
                    .ring_records = run.options.ring_records});
}

/// `world` with the table of transports, if there is one.
std::unique_ptr<Communicator> with_table(std::unique_ptr<Communicator> world, const Prepared& prepared,
                                         const TrainRequest& request) {
  Result<std::unique_ptr<Communicator>> both =
      over_table(std::move(world), std::string(name_of(request.transport)), prepared.table, request.events);
  if (!both) {
    throw SystemError(both.error().message);
  }
  return std::move(*both);
}

/// Trains on one rank of `world`, whose calls have a timeout; over NCCL if requested.
TrainOutcome train_on(std::unique_ptr<Communicator> world, CallWatch& watch, const Prepared& prepared,
                      const TrainRequest& request, const engine::OnIteration& on_iteration) {
  const Job& job = prepared.run.plan.job;
  if (request.transport != Transport::nccl) {
    return prepared.engine->train_rank(job, prepared.run.options, std::move(world), on_iteration);
  }
  const auto device = static_cast<int>(local_rank(world->rank().value));
  Result<std::unique_ptr<Communicator>> nccl = open_nccl_world(*world, device);
  if (!nccl) {
    throw SystemError(nccl.error().message);
  }
  constexpr std::uint64_t k_nccl_layer = 2;
  return prepared.engine->train_rank(
      job, prepared.run.options, watch.watched(with_table(std::move(*nccl), prepared, request), k_nccl_layer),
      on_iteration);
}

/// How all ranks ended.
struct JobOutcome {
  bool stopped = false;
  std::vector<Bytes> peak_memory;  // of each rank; empty where it is not known
};

/// Compares the iterations that the recording has with the prediction; a ring may have lost the earlier ones,
/// or all.
std::optional<RecordingCheck> checked(const TrainRun& run, const Trace& recorded,
                                      const std::vector<engine::IterationReport>& iterations) {
  const auto made = static_cast<std::int64_t>(iterations.size());
  const std::int64_t first = iterations.empty() ? 0 : iterations.front().iteration;
  if (!recorded.provenance.skipped.contains(std::string(k_skipped_overwritten))) {
    return check_recording(run.plan, recorded, first, made);
  }
  const std::vector<Iteration> left = training_iterations(recorded);
  if (left.empty()) {
    return std::nullopt;
  }
  const std::int64_t of_last = first + made - left.front();
  RecordingCheck check = check_recording(run.plan, recorded, left.front(), of_last);
  check.of_last = of_last;
  return check;
}

/// Finishes a training in the process that reports: closes the trace and compares it with the prediction.
TrainResult concluded(const TrainRun& run, std::vector<engine::IterationReport> iterations,
                      JobRecording& recording, JobOutcome outcome) {
  const std::filesystem::path& directory = run.trace();
  finish_recording(directory);
  Result<Trace> recorded = read_trace(directory);
  recording.settle();  // from now on another job may record there
  if (!recorded) {
    throw SystemError(fmt::format("the recording cannot be read: {}", recorded.error().message));
  }
  TrainResult result;
  result.trace = std::move(*recorded);
  result.stopped = outcome.stopped;
  result.peak_memory = std::move(outcome.peak_memory);
  if (const auto& recorder = result.trace.provenance.recorder) {
    result.dropped = recorder->dropped;
  }
  if (result.dropped == 0) {
    result.check = checked(run, result.trace, iterations);
  }
  result.iterations = std::move(iterations);
  return result;
}

/// Calls a callback unless it is empty.
template <typename Function, typename... Arguments>
void notify(const Function& listener, const Arguments&... arguments) {
  if (listener) {
    listener(arguments...);
  }
}

Result<TrainResult> train_on_threads(const TrainRequest& request) {
  const Result<Prepared> prepared = check_recording_directory(request.trace).and_then([&] {
    return prepare(request.events, request, std::nullopt);
  });
  if (!prepared) {
    return tl::unexpected(prepared.error());
  }
  const std::int64_t ranks = prepared->run.plan.job.layout.ranks;
  const bool over_nccl = request.transport == Transport::nccl;
  const ThreadOptions threads{
      .assistants = over_nccl ? 0 : assistants_of(request.progress, ranks, prepared->run.options.threads)};
  Result<JobRecording> recording = start_recording(prepared->run, over_nccl || threads.assistants > 0);
  if (!recording) {
    return tl::unexpected(recording.error());
  }
  notify(request.train_events.begins, prepared->run, true);
  JobOutcome job;
  job.peak_memory.resize(prepared->run.options.device == "cpu" ? static_cast<std::size_t>(ranks) : 0);
  std::vector<engine::IterationReport> iterations;
  {
    const auto settle = [&] { const JobRecording settled(std::move(*recording)); };
    const auto watch = watch_of({request.timeout, request.give_up}, CallBoard::of_threads(ranks), settle);
    const auto train_rank = [&](std::unique_ptr<Communicator> world) {
      const auto rank = static_cast<std::size_t>(world->rank().value);
      std::unique_ptr<Communicator> own =
          over_nccl ? std::move(world) : with_table(std::move(world), *prepared, request);
      const TrainOutcome outcome = train_on(watch->watched(std::move(own)), *watch, *prepared, request,
                                            [&](const engine::IterationReport& iteration) {
                                              iterations.push_back(iteration);
                                              notify(request.train_events.iteration, iteration);
                                            });
      if (outcome.peak_memory) {
        job.peak_memory.at(rank) = *outcome.peak_memory;
      }
      if (rank == 0) {
        job.stopped = outcome.stopped;
      }
    };
    run_thread_ranks(ranks, train_rank, threads);
  }
  notify(request.train_events.ends);
  return concluded(prepared->run, std::move(iterations), *recording, std::move(job));
}

/// The peak memory of each rank, once all have closed their files. Known for all ranks or for none.
std::vector<Bytes> of_all_ranks(Communicator& world, const std::optional<Bytes>& own) {
  const std::int64_t peak = own.value_or(Bytes{-1}).value;
  std::vector<std::int64_t> peaks(static_cast<std::size_t>(world.size()));
  world.run({.kind = CommKind::all_gather,
             .dtype = DType::int64,
             .input_buffer = &peak,
             .output_buffer = peaks.data(),
             .input = {1},
             .output = {world.size()}});
  std::vector<Bytes> known;
  for (const std::int64_t bytes : peaks) {
    if (bytes < 0) {
      return {};
    }
    known.push_back({bytes});
  }
  return known;
}

/// `recording`: of the first rank.
TrainResult train_in_job(const TrainRequest& request, const Prepared& prepared,
                         std::optional<JobRecording>& recording, CallWatch& watch, Communicator& world) {
  const bool is_first = world.rank().value == 0;
  std::vector<engine::IterationReport> iterations;
  notify(request.train_events.begins, prepared.run, is_first);
  const TrainOutcome outcome = train_on(world.split(0, world.rank().value), watch, prepared, request,
                                        [&](const engine::IterationReport& iteration) {
                                          iterations.push_back(iteration);
                                          notify(request.train_events.iteration, iteration);
                                        });
  notify(request.train_events.ends);
  JobOutcome job{outcome.stopped, of_all_ranks(world, outcome.peak_memory)};
  if (is_first) {
    return concluded(prepared.run, std::move(iterations), *recording, std::move(job));
  }
  TrainResult result;
  result.reports = false;
  return result;
}

Result<TrainResult> train_over_mpi(const TrainRequest& request) {
  Result<std::unique_ptr<Communicator>> own =
      open_mpi_job({.mpi = request.mpi,
                    .transports = request.transport == Transport::mpi ? request.transports : "",
                    .progress = request.progress,
                    .threads = request.threads,
                    .events = request.events});
  if (!own) {
    return tl::unexpected(own.error());
  }
  const bool is_first = (*own)->rank().value == 0;
  const Events events = is_first ? request.events : Events();
  const auto watch = watch_of({request.timeout, request.give_up}, CallBoard::of_processes(**own));
  const std::unique_ptr<Communicator> world = watch->watched(std::move(*own));
  try {
    Result<Prepared> prepared = prepare(events, request, world->size());
    std::optional<JobRecording> recording;
    if (is_first && prepared) {  // which alone looks at the place: it is in use from here on
      const bool progress = request.transport == Transport::nccl || world->makes_progress();
      Result<JobRecording> started = check_recording_directory(request.trace).and_then([&] {
        return start_recording(prepared->run, progress);
      });
      if (started) {
        recording.emplace(std::move(*started));
      } else {
        prepared = tl::unexpected(started.error());
      }
    }
    const Result<bool> ready =
        all_ready(*world, prepared ? Result<void>()
                                   : tl::unexpected(prepared.error()));  // and the trace directory exists
    if (!ready) {
      return tl::unexpected(ready.error());
    }
    if (!*ready) {
      TrainResult result;
      result.reports = false;
      result.was_refused = true;
      return result;
    }
    return train_in_job(request, *prepared, recording, *watch, *world);
  } catch (const std::exception& error) {
    world->abort(error.what());  // the others would wait for this rank forever
    throw;
  }
}

}  // namespace

Result<TrainResult> train(const TrainRequest& request) {
  if (const Result<void> consistent = check_request(request); !consistent) {
    return tl::unexpected(consistent.error());
  }
  return request.uses_mpi() ? train_over_mpi(request) : train_on_threads(request);
}

}  // namespace commlens
