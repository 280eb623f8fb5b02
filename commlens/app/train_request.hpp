#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "commlens/app/events.hpp"
#include "commlens/app/train_recipe.hpp"
#include "commlens/app/train_report.hpp"
#include "commlens/app/transport_choice.hpp"
#include "commlens/base/result.hpp"
#include "commlens/engine/train.hpp"
#include "commlens/frameworks/overrides.hpp"

namespace commlens {

/// Callbacks of a training in addition to warnings. All may be empty.
struct TrainEvents {
  /// Called after all checks, when the ranks start, in every process of an MPI job. `reports`: true in the
  /// process that reports.
  std::function<void(const TrainRun& run, bool reports)> begins;
  /// Called after each iteration, in the process that reports, by one thread.
  std::function<void(const engine::IterationReport&)> iteration;
  /// Called after all iterations, in every process. Not called if one fails.
  std::function<void()> ends;
};

/// A training: a configuration, changes to it, and how it runs.
struct TrainRequest {
  std::vector<std::string> config;  // as in PredictRequest
  Overrides overrides;
  Transport transport = Transport::threads;
  std::string mpi;               // openmpi or mpich; empty: the launcher's
  std::string transports;        // a table of transports and algorithms; empty: none
  std::string device;            // cpu or cuda; empty: cuda with NCCL, else cpu
  std::int64_t iterations = 10;  // optimizer steps, those before a resume included
  RecipeChoice recipe;
  std::optional<double>
      rotary_fraction;  // part of each head that rotary positions turn; absent: the configuration's
  std::optional<std::int64_t> threads;  // of each rank; absent: its share of the cores, 1 in tiny models
  engine::DataOptions data;
  bool prefetch = true;  // ZeRO-3: gather parameters ahead
  bool overlap = true;   // reduce gradients during backward
  CallProgress progress = CallProgress::automatic;
  std::chrono::nanoseconds timeout = std::chrono::minutes(10);  // longest wait for one call; 0: any
  std::string save;                                             // directory of checkpoints; empty: none
  std::int64_t save_every = 0;                                  // iterations; 0: at the end only
  std::string resume;                       // directory of checkpoints to resume from; empty: from the start
  std::string trace = "commlens-training";  // directory that the calls are recorded in
  std::int64_t ring_records = 0;  // of a rank the last so many calls are kept, without computing; 0: all
  std::function<bool()> stop_requested;  // polled once per iteration; a rank that wants to stop stops all
  /// Called if a rank is stuck after the job was ended by the timeout. It should end the process and print
  /// the reason. Empty: the other ranks wait for that one.
  std::function<void(const std::string& reason)> give_up;
  TrainEvents train_events;
  Events events;

  /// Whether an MPI launcher starts the ranks: over MPI, or NCCL with an MPI named or under a launcher.
  bool uses_mpi() const;
};

/// Refuses choices that contradict each other.
Result<void> check_request(const TrainRequest& request);

/// Training options from the request and the configuration; the data are not opened yet.
Result<engine::TrainOptions> train_options(const TrainRequest& request, const Job& job);

}  // namespace commlens
