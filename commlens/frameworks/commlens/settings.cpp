// Settings of our trainer that follow from others, what makes two of its runs differ, and what advice
// recommends for them.
#include <fmt/format.h>

#include "commlens/frameworks/commlens/framework.hpp"
#include "commlens/frameworks/commlens/options.hpp"
#include "commlens/frameworks/deepspeed/options.hpp"

namespace commlens::trainer {

void adopt(Job& job) {
  job.is_converted = true;
  if (job.train.dtype == DType::fp16 && !job.train.dtype_is_chosen) {
    job.train.dtype = DType::bf16;  // which needs no loss scaling and is faster on CPUs
  }
  if (deepspeed::options(job).offloads_optimizer || deepspeed::options(job).offloads_parameters) {
    job.warnings.emplace_back("our trainer keeps everything on its device: offload is skipped");
  }
}

void skip_converted(Job& job) {
  if (!std::exchange(job.is_converted, false)) {
    return;
  }
  if (job.train.zero_stage != 3) {
    job.train.hpz = 1;
    job.train.quantized_weights = job.train.quantized_gradients = false;
  }
  const bool is_split = job.layout.tp > 1 && !job.layout.sequence_parallel;
  job.train.partition_activations =
      job.train.partition_activations && is_split && job.train.recompute == Recompute::full;
}

Bytes bucket(const Job& job) { return job.train.zero_stage < 3 ? options(job).bucket : Bytes{}; }

Result<void> set_bucket(Job& job, Bytes bucket) {
  options(job).bucket = bucket;
  return {};
}

/// Flags of the command line, but for what a flag cannot take back.
std::string setting_text(const Job&, Setting setting) {
  return setting == Setting::whole_activations ? "leave --partition-activations out, of commlens train (or "
                                                 "set it to false in the configuration)"
                                               : "";
}

std::vector<AdvisedChange> advised_changes(const Job& job, AdviceTopic topic) {
  if (topic != AdviceTopic::gradient_reduction || !options(job).all_reduce_gradients) {
    return {};
  }
  Job changed = job;
  options(changed).all_reduce_gradients = false;
  return {{std::move(changed), "Reduce gradients by reduce_scatter",
           "leave --deepspeed-like out, of commlens train"}};
}

void add_variations(Variations& variations) {
  variations.toggle("--deepspeed-like", [](Job& job) -> bool& { return options(job).all_reduce_gradients; });
  variations.toggle("--partition-activations",
                    [](Job& job) -> bool& { return job.train.partition_activations; });
  variations.toggle("--qwz", [](Job& job) -> bool& { return job.train.quantized_weights; });
  variations.toggle("--qgz", [](Job& job) -> bool& { return job.train.quantized_gradients; });
  variations.limits(
      "--persistence-threshold", [](Job& job) -> std::int64_t& { return job.train.persistence_threshold; },
      round_numbers({0, 100, 200, 500}));
  variations.buckets("--bucket", [](Job& job) -> Bytes& { return options(job).bucket; }, "MiB");
}

}  // namespace commlens::trainer
