#include "commlens/engine/train.hpp"

#include <cmath>
#include <csignal>
#include <limits>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "commlens/engine/checkpoint.hpp"
#include "commlens/engine/checkpoint_file.hpp"
#include "commlens/engine/data_parallel.hpp"
#include "commlens/engine/fault.hpp"
#include "commlens/engine/groups.hpp"
#include "commlens/engine/layers/attention.hpp"
#include "commlens/engine/layers/module_forward.hpp"
#include "commlens/engine/optimizer.hpp"
#include "commlens/engine/processor.hpp"
#include "commlens/engine/stage_executor.hpp"
#include "commlens/engine/tensor_memory.hpp"
#include "commlens/frameworks/memory.hpp"

namespace commlens::engine {
namespace {

using Clock = std::chrono::steady_clock;

CommClock difference(const CommClock& now, const CommClock& before) {
  CommClock result;
  for (std::size_t kind = 0; kind < CommClock::k_kinds; ++kind) {
    result.blocked[kind] = now.blocked[kind] - before.blocked[kind];
    result.calls[kind] = now.calls[kind] - before.calls[kind];
  }
  return result;
}

torch::Device device_of(const TrainOptions& options, const Communicator& world) {
  if (options.device == "cpu") {
    return torch::kCPU;
  }
  const auto devices = static_cast<std::int64_t>(torch::cuda::device_count());
  return {torch::kCUDA,
          static_cast<c10::DeviceIndex>(world.rank().value % std::max<std::int64_t>(1, devices))};
}

/// One rank's training from its start to its end.
class RankTrainer {
 public:
  RankTrainer(const Job& job, const TrainOptions& options, std::unique_ptr<Communicator> world,
              Recorder* recorder, const OnIteration& on_iteration)
      : job_(job),
        options_(options),
        on_iteration_(on_iteration),
        recorder_(recorder),
        device_(device_of(options, *world)),
        groups_(make_groups(job, std::move(world), recorder, clock_)),
        layers_(make_layer_context(job.model, job.model.rotary_fraction, device_)),
        parameters_(job, held_chunks(job, groups_.where.pipeline), groups_,
                    {.gathers = options.prefetch && groups_.dp->starting_pays(),
                     .reductions = options.overlap && groups_.dp->starting_pays()},
                    device_),
        optimizer_(job, options, parameters_, groups_),
        executor_(job, layers_, parameters_, groups_, recorder) {
    layers_.tp = groups_.tp.get();
    layers_.sequence_parallel = job.layout.sequence_parallel && job.layout.tp > 1;
    layers_.selective_recompute = job.train.recompute == Recompute::selective;
    layers_.fused_attention = attention_of(job) == Attention::flash;
    const Result<Fault> fault = fault_from_environment();
    if (!fault) {
      throw SystemError(fault.error().message);
    }
    fault_ = *fault;
    if (options.save && groups_.world->rank().value == 0) {
      lock_.emplace(*options.save);  // after the groups: by then every rank has checked the directory
    }
  }

  TrainOutcome run();

 private:
  void initialise();
  bool iterate(std::int64_t iteration);
  std::vector<MicroBatch> read_batches(std::int64_t iteration) const;
  double inject_fault(std::int64_t iteration, double loss) const;
  void save(std::int64_t iteration);

  const Job& job_;
  const TrainOptions& options_;
  const OnIteration& on_iteration_;
  Recorder* recorder_;
  torch::Device device_;
  CommClock clock_;
  RankGroups groups_;
  LayerContext layers_;
  DataParallel parameters_;
  Optimizer optimizer_;
  StageExecutor executor_;
  Fault fault_;
  std::optional<CheckpointLock> lock_;  // rank 0, while checkpoints are written
};

void RankTrainer::initialise() {
  const std::int64_t tp = job_.layout.tp;
  for (std::size_t chunk = 0; chunk < parameters_.chunk_count(); ++chunk) {
    for (UnitStorage& unit : parameters_.units(chunk)) {
      for (const std::size_t row : unit.unit().parameters) {
        const HeldParameter& parameter = parameters_.chunk(chunk).parameters[row];
        unit.set_values(row, 0,
                        initial_parameter(parameter, job_.model, options_.seed, tp, groups_.where.tensor));
      }
    }
  }
}

/// The sequences of this data rank: the global batch is the same whatever the layout.
std::vector<MicroBatch> RankTrainer::read_batches(std::int64_t iteration) const {
  const std::int64_t size = job_.train.micro_batch;
  const std::int64_t length = job_.model.sequence;
  const std::int64_t replicas = job_.layout.dp;
  std::vector<MicroBatch> batches;
  for (std::int64_t micro_batch = 0; micro_batch < job_.train.micro_batches; ++micro_batch) {
    torch::Tensor rows = torch::empty({size, length + 1}, torch::kInt64);
    const std::int64_t first =
        ((iteration * job_.train.micro_batches + micro_batch) * replicas + groups_.where.data) * size;
    for (std::int64_t i = 0; i < size; ++i) {
      const std::int64_t start = sequence_start(*options_.tokens, length, first + i, options_.seed);
      options_.tokens->read(
          start, {rows.data_ptr<std::int64_t>() + i * (length + 1), static_cast<std::size_t>(length + 1)});
    }
    rows = rows.to(device_);
    batches.push_back({rows.narrow(1, 0, length).contiguous(), rows.narrow(1, 1, length).contiguous()});
  }
  return batches;
}

double RankTrainer::inject_fault(std::int64_t iteration, double loss) const {
  if (fault_.kind == Fault::Kind::none || fault_.iteration != iteration ||
      fault_.rank != groups_.world->rank().value) {
    return loss;
  }
  if (fault_.kind == Fault::Kind::kill) {
    static_cast<void>(std::raise(SIGKILL));
  }
  if (fault_.kind == Fault::Kind::error) {
    throw SystemError(fmt::format("failure on purpose in iteration {}", iteration));
  }
  while (fault_.kind == Fault::Kind::stall) {
    std::this_thread::sleep_for(std::chrono::hours(1));  // until the process ends
  }
  return std::numeric_limits<double>::quiet_NaN();
}

/// One optimizer step. False if a rank requests to stop.
bool RankTrainer::iterate(std::int64_t iteration) {
  const Clock::time_point start = Clock::now();
  const CommClock before = clock_;
  if (recorder_ != nullptr) {
    recorder_->set_iteration(static_cast<Iteration>(iteration));
    recorder_->start_computing();
  }
  const std::vector<MicroBatch> batches = read_batches(iteration);
  parameters_.begin_iteration();
  const double own_loss = inject_fault(iteration, executor_.run(batches, optimizer_.scaler().scale()));
  if (recorder_ != nullptr) {
    recorder_->set_phase(Phase::optimizer);
  }
  parameters_.finish_gradients();
  const Optimizer::Step step = optimizer_.step(iteration);
  parameters_.share_updated();
  if (recorder_ != nullptr) {
    recorder_->set_phase(Phase::other);
  }
  const bool holds_loss = groups_.where.pipeline + 1 == job_.layout.pp && groups_.where.tensor == 0;
  const double share =
      holds_loss || !std::isfinite(own_loss) ? own_loss / static_cast<double>(job_.layout.dp) : 0;
  const bool wants_to_stop = options_.stop_requested && options_.stop_requested();
  const torch::Tensor sums = torch::tensor({share, wants_to_stop ? 1.0 : 0.0}, torch::kFloat32).to(device_);
  all_reduce(*groups_.world, sums, "loss", Completion::now);
  const torch::Tensor host = sums.to(torch::kCPU);
  const double loss = host[0].item<double>();
  if (groups_.world->rank().value == 0 && on_iteration_) {
    on_iteration_({.iteration = iteration,
                   .loss = loss,
                   .gradient_norm = step.norm,
                   .learning_rate = step.learning_rate,
                   .loss_scale = step.loss_scale,
                   .skipped = step.skipped,
                   .time = Clock::now() - start,
                   .communication = difference(clock_, before)});
  }
  if (!step.skipped && (!std::isfinite(loss) || !std::isfinite(step.norm))) {
    throw SystemError(fmt::format(
        "the {} is {} in iteration {}; lower --lr or set --clip 1, and start from "
        "the last checkpoint",
        std::isfinite(loss) ? "gradient norm" : "loss", std::isfinite(loss) ? step.norm : loss, iteration));
  }
  return host[1].item<double>() == 0;
}

void RankTrainer::save(std::int64_t iteration) {
  if (options_.save) {
    save_checkpoint({*options_.save, options_.seed}, {iteration, optimizer_.scaler().state()}, job_,
                    parameters_, groups_);
  }
}

TrainOutcome RankTrainer::run() {
  std::int64_t iteration = 0;
  if (options_.resume) {
    const Progress progress = load_checkpoint({*options_.resume, options_.seed}, job_, parameters_, groups_);
    iteration = progress.iteration;
    if (progress.scaler) {
      optimizer_.restore(*progress.scaler);
    }
  } else {
    initialise();
  }
  TrainOutcome outcome;
  std::int64_t saved = iteration;
  while (iteration < options_.iterations && !outcome.stopped) {
    outcome.stopped = !iterate(iteration);
    ++iteration;
    ++outcome.iterations;
    if (options_.save_every > 0 && iteration % options_.save_every == 0) {
      save(iteration);
      saved = iteration;
    }
  }
  outcome.stopped = outcome.stopped && iteration < options_.iterations;
  if (saved != iteration) {
    save(iteration);
  }
  return outcome;
}

/// A ring is to have a bound, which intervals of computing have not.
RecorderOptions recorder_options(std::int64_t ring_records) {
  return {.parts = ring_records > 0 ? RecorderParts::calls : RecorderParts::calls_and_compute,
          .ring_records = ring_records};
}

}  // namespace

TrainOutcome train_rank(const Job& job, const TrainOptions& options, std::unique_ptr<Communicator> world,
                        const OnIteration& on_iteration) {
  try {
    avoid_broken_amx();
    keep_freed_memory();
    use_threads(options.threads);
    const TensorMemoryScope tensors;
    std::unique_ptr<Recorder> recorder;
    if (options.trace) {
      recorder = std::make_unique<Recorder>(*options.trace, Rank{world->rank().value},
                                            recorder_options(options.ring_records));
    }
    const c10::DeviceGuard on_device(device_of(options, *world));
    TrainOutcome outcome = RankTrainer(job, options, std::move(world), recorder.get(), on_iteration).run();
    if (options.device == "cpu") {
      outcome.peak_memory = tensors.memory().peak();
    }
    if (recorder) {
      recorder->close();
      outcome.dropped = recorder->dropped();
    }
    return outcome;
  } catch (const c10::Error& error) {
    throw SystemError(fmt::format("LibTorch: {}", error.what_without_backtrace()));
  }
}

Result<void> check_fused_attention(const Job& job, const TrainOptions& options) {
  const bool is_on_cpu = options.device == "cpu";
  if (!is_on_cpu && !torch::cuda::is_available()) {
    return {};  // check_trainable says so
  }
  const bool is_widened = is_on_cpu && job.train.dtype == DType::fp16;  // module_forward.cpp
  return check_fused_attention({.batch = job.train.micro_batch,
                                .heads = job.model.heads / job.layout.tp,
                                .sequence = job.model.sequence,
                                .head_dim = job.model.head_dim,
                                .dtype = is_widened ? DType::fp32 : job.train.dtype,
                                .device = torch::Device(is_on_cpu ? torch::kCPU : torch::kCUDA),
                                .has_bias = job.model.positions == Positions::alibi});
}

Result<void> check_trainable(const Job& job, const TrainOptions& options) {
  if (options.device != "cpu" && !torch::cuda::is_available()) {
    return failure(
        "--device cuda: this LibTorch finds no GPU; use --device cpu, or build with a LibTorch for CUDA and "
        "its toolkit");
  }
  if (attention_of(job) == Attention::flash) {
    if (const Result<void> fused = check_fused_attention(job, options); !fused) {
      return failure(fmt::format("{}; use --attention eager", fused.error().message));
    }
  }
  if (options.tokens == nullptr) {
    return failure("no data: give --data FILE or --data synthetic");
  }
  if (options.resume) {
    const Result<std::int64_t> iteration = check_checkpoint({*options.resume, options.seed}, job);
    if (!iteration) {
      return tl::unexpected(iteration.error());
    }
    if (*iteration >= options.iterations) {
      return failure(fmt::format("--resume {}: it has {} completed iterations; give a larger --iterations",
                                 options.resume->string(), *iteration));
    }
  }
  if (options.save) {
    if (const Result<void> ok = prepare_save_directory(*options.save); !ok) {
      return ok;
    }
  }
  const Result<Fault> fault = fault_from_environment();
  return fault ? Result<void>{} : tl::unexpected(fault.error());
}

}  // namespace commlens::engine
