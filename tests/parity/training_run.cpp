#include "parity/training_run.hpp"

#include <cstdlib>
#include <mutex>
#include <stdexcept>

#include <fmt/format.h>
#include <unistd.h>

#include "commlens/compare/compare.hpp"
#include "commlens/frameworks/commlens/options.hpp"
#include "commlens/frameworks/frameworks.hpp"
#include "commlens/frameworks/planner.hpp"
#include "commlens/trace/recorder.hpp"
#include "commlens/trace/trace_file.hpp"
#include "commlens/transport/thread_ranks.hpp"

namespace commlens::engine {
namespace {

namespace fs = std::filesystem;

template <typename T>
T checked(Result<T> result) {
  if (!result) {
    throw std::runtime_error(result.error().message);
  }
  return std::move(*result);
}

class ScratchRoot {
 public:
  ScratchRoot() : path_(fs::temp_directory_path() / fmt::format("commlens-parity-{}", getpid())) {
    fs::create_directories(path_);
  }
  ~ScratchRoot() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

std::string text_of(const Difference& difference) {
  const auto bytes = [](const std::optional<CommOp>& op) {
    return op ? fmt::format("{}->{} B", (op->input * op->dtype).value, (op->output * op->dtype).value)
              : std::string("-");
  };
  return fmt::format(
      "{} {} x{} on {} ranks, group of {}, rank {} iteration {}: predicted {}, recorded {} ({} {})",
      name_of(difference.verdict), name_of(difference.kind), difference.calls, difference.ranks,
      difference.group_size, difference.example_rank.value, difference.example_iteration, bytes(difference.a),
      bytes(difference.b), difference.rule.name, difference.tag);
}

}  // namespace

Job tiny_job() {
  Job job;
  job.framework = "commlens";
  ModelConfig& model = job.model;
  model.name = "tiny";
  model.layers = 4;
  model.hidden = 32;
  model.heads = 4;
  model.kv_heads = 4;
  model.head_dim = 8;
  model.ffn_hidden = 128;
  model.sequence = 16;
  model.max_positions = 16;
  model.vocab = 128;
  model.raw_vocab = 128;
  model.vocab_is_padded = true;
  job.train.micro_batch = 8;
  job.train.dtype = DType::fp32;
  trainer::options(job).bucket = Bytes{40'000};
  job.train.persistence_threshold = 100;
  return job;
}

fs::path scratch_directory(const std::string& name) {
  static const ScratchRoot root;
  return root.path() / name;
}

TrainOutcome train_job(Job job, TrainOptions options, const fs::path& trace,
                       std::unique_ptr<Communicator> world, const OnIteration& on_iteration) {
  job = checked(validated(std::move(job)));
  const auto tokens = checked(open_tokens({}, job.model.sequence, job.model.raw_vocab, options.seed));
  options.tokens = tokens.get();
  options.trace = trace;
  if (const Result<void> trainable = check_trainable(job, options); !trainable) {
    throw std::runtime_error(trainable.error().message);
  }
  return train_rank(job, options, std::move(world), on_iteration);
}

TrainingRun train_on_threads(const std::string& name, Job job, TrainOptions options) {
  job = checked(validated(std::move(job)));
  TrainingRun run{.trace = scratch_directory(name)};
  create_recording(run.trace, {.producer = "test", .ranks = job.layout.ranks, .compute = true});
  std::mutex held;
  run_thread_ranks(job.layout.ranks, [&](std::unique_ptr<Communicator> world) {
    const TrainOutcome outcome =
        train_job(job, options, run.trace, std::move(world), [&](const IterationReport& report) {
          run.losses.push_back(report.loss);
          run.norms.push_back(report.gradient_norm);
          run.rates.push_back(report.learning_rate);
          run.loss_scales.push_back(report.loss_scale);
          run.skipped.push_back(report.skipped);
        });
    const std::lock_guard lock(held);
    run.peak_memory = std::max(run.peak_memory, outcome.peak_memory.value());
  });
  finish_recording(run.trace);
  return run;
}

std::vector<std::string> differences_from_prediction(Job job, const fs::path& trace,
                                                     std::int64_t iterations) {
  job = checked(validated(std::move(job)));
  const Plan plan = checked(make_plan(job));
  const Trace recorded = checked(read_trace(trace));
  const Trace predicted = plan.trace(iterations);
  const Comparison comparison = checked(compare(predicted, recorded, {}));
  std::vector<std::string> lines;
  for (const Difference& difference : comparison.differences) {
    lines.push_back(text_of(difference));
  }
  if (comparison.exact == 0 || comparison.ranks != job.layout.ranks ||
      static_cast<std::int64_t>(comparison.iterations.size()) != iterations) {
    lines.push_back(fmt::format("compared {} calls of {} ranks in {} iterations", comparison.exact,
                                comparison.ranks, comparison.iterations.size()));
  }
  return lines;
}

}  // namespace commlens::engine
