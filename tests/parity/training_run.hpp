#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "commlens/engine/train.hpp"
#include "commlens/model/job.hpp"

namespace commlens::engine {

/// A GPT small enough to train in milliseconds: 4 blocks of width 32, sequence 16, 128 tokens, one
/// micro-batch of 8.
Job tiny_job();

/// The same on `layout`, in as many micro-batches as it says: the batch of 8 is shared over the data ranks.
template <typename Layout>
Job tiny_job_of(const Layout& layout) {
  Job job = tiny_job();
  job.layout.dp = layout.dp;
  job.layout.tp = layout.tp;
  job.layout.pp = layout.pp;
  job.train.zero_stage = layout.zero;
  job.train.micro_batches = layout.micro_batches;
  job.train.micro_batch = job.train.micro_batch / (layout.dp * layout.micro_batches);
  return job;
}

/// A directory for this test process, removed when it ends.
std::filesystem::path scratch_directory(const std::string& name);

/// The result of a training over threads.
struct TrainingRun {
  std::vector<double> losses;
  std::vector<double> norms;
  std::vector<double> rates;
  std::vector<double> loss_scales;
  std::vector<bool> skipped;
  Bytes peak_memory;  // of the rank whose tensors took most
  std::filesystem::path trace;
};

/// Trains `job` (validated here) with one thread per rank on synthetic tokens; the recording is in a
/// directory of `name`.
TrainingRun train_on_threads(const std::string& name, Job job, TrainOptions options);

/// One rank's part of a training of `job` (validated here) on synthetic tokens, recorded in `trace`, which
/// exists.
TrainOutcome train_job(Job job, TrainOptions options, const std::filesystem::path& trace,
                       std::unique_ptr<Communicator> world, const OnIteration& on_iteration);

/// Differences between the prediction for `job` and a recording, one line each; empty: equal.
std::vector<std::string> differences_from_prediction(Job job, const std::filesystem::path& trace,
                                                     std::int64_t iterations);

}  // namespace commlens::engine
