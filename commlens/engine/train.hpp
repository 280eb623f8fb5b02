#pragma once
#include <array>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "commlens/engine/data/token_source.hpp"
#include "commlens/model/job.hpp"
#include "commlens/transport/comm_recording.hpp"
#include "commlens/transport/communicator.hpp"

namespace commlens::engine {

/// Options of a training that are not in the job.
struct TrainOptions {
  std::int64_t iterations = 10;  // optimizer steps of the whole run, those before a resume included
  std::uint64_t seed = 1234;
  LearningRateSchedule schedule;  // where it has no iterations of its own, over `iterations`
  double weight_decay = 0.1;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  LossScaling loss_scaling;                     // of a model in fp16
  bool prefetch = true;                         // ZeRO-3: the next module's units are gathered ahead
  bool overlap = true;                          // gradient reductions run while backward goes on
  std::string device = "cpu";                   // cpu or cuda
  std::int64_t threads = 1;                     // intra-operation threads of each rank
  std::optional<std::filesystem::path> trace;   // recording directory, already made by create_recording
  std::int64_t ring_records = 0;                // as RecorderOptions says; with it, computing is not recorded
  std::optional<std::filesystem::path> save;    // checkpoint directory
  std::int64_t save_every = 0;                  // 0: at the end only
  std::optional<std::filesystem::path> resume;  // checkpoint directory to start from
  const TokenSource* tokens = nullptr;          // outlives the training
  std::function<bool()> stop_requested;         // polled once per iteration; a request of any rank stops all
};

/// One iteration, measured on rank 0.
struct IterationReport {
  std::int64_t iteration = 0;
  double loss = 0;           // mean over the global batch
  double gradient_norm = 0;  // before clipping; 0 without clipping
  double learning_rate = 0;
  double loss_scale = 1;  // the gradients were multiplied by it; 1 unless the model is in fp16
  bool skipped = false;   // gradients overflowed fp16: nothing was updated
  std::chrono::nanoseconds time{};
  CommClock communication;  // of this iteration alone
};

/// How a training ended.
struct TrainOutcome {
  std::int64_t iterations = 0;       // done in this run
  bool stopped = false;              // by request
  std::int64_t dropped = 0;          // calls of this rank that could not be recorded
  std::optional<Bytes> peak_memory;  // most that this rank's tensors took; not known on a GPU
};

using OnIteration = std::function<void(const IterationReport&)>;

/// Trains on this rank; every rank of `world` calls it with the same job and options. `on_iteration` is
/// called on rank 0 only. Throws SystemError when a transport, LibTorch or a file fails, or when the loss is
/// not finite.
TrainOutcome train_rank(const Job& job, const TrainOptions& options, std::unique_ptr<Communicator> world,
                        const OnIteration& on_iteration);

/// Refuses, by name, settings that the trainer does not support and the rules do not refuse (fp16, a device
/// without support).
Result<void> check_trainable(const Job& job, const TrainOptions& options);

/// Fails, naming what is missing, where LibTorch cannot compute the attention of a rank of `job` in one fused
/// kernel. `check_trainable` asks it when the job has `Attention::flash`.
Result<void> check_fused_attention(const Job& job, const TrainOptions& options);

/// The functions of the engine module (libcommlens-engine.so), for verbs that load it at run time.
struct EngineApi {
  TrainOutcome (*train_rank)(const Job&, const TrainOptions&, std::unique_ptr<Communicator>,
                             const OnIteration&);
  Result<void> (*check_trainable)(const Job&, const TrainOptions&);
  Result<void> (*check_fused_attention)(const Job&, const TrainOptions&);
  Result<std::unique_ptr<TokenSource>> (*open_tokens)(const DataOptions&, std::int64_t sequence,
                                                      std::int64_t vocab, std::uint64_t seed);
};
/// Symbol `commlens_engine_api` of the module: a function of this type.
using EngineApiFunction = const EngineApi* (*)();

}  // namespace commlens::engine
