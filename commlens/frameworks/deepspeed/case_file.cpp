// What a case file holds of DeepSpeed: its JSON, and options of the training script.
#include <algorithm>

#include <fmt/format.h>

#include "commlens/config/map_reader.hpp"
#include "commlens/frameworks/deepspeed/options.hpp"
#include "commlens/frameworks/deepspeed/reader.hpp"

namespace commlens::deepspeed {
namespace {

constexpr std::int64_t k_absent = 0;  // a batch size that the case leaves to its DeepSpeed map (CaseRules)

}  // namespace

void read_case_options(MapReader& reader, Job& job) {
  Options& own = options(job);
  reader.choose("parameter_groups", {{"weight_decay", true}, {"single", false}}, own.weight_decay_groups);
  reader.choose("engine", {{"pipeline", true}, {"default", false}}, own.pipeline_engine);
  reader.read("attention_mask", own.attention_mask);
  reader.read("pipe_partition_method", own.partition_method);
  reader.read("zero_init", own.zero_init);
}

/// The batch and the precision are in the case and in its DeepSpeed map: both must say the same.
Result<void> read_case_section(std::string_view /*name*/, const ConfigNode& section, Job& job) {
  const DType precision = job.train.dtype;
  const std::int64_t micro_batch = job.train.micro_batch;
  const std::int64_t micro_batches = job.train.micro_batches;
  job.train.micro_batch = std::max<std::int64_t>(micro_batch, 1);
  job.train.micro_batches = std::max<std::int64_t>(micro_batches, 1);
  TrainingArguments given;
  given.dtype = precision;
  if (micro_batch != k_absent) {
    given.micro_batch = micro_batch;
  }
  if (micro_batches != k_absent) {
    given.micro_batches = micro_batches;
  }
  if (const Result<void> ok = read_deepspeed(section, job, given); !ok) {
    return ok;
  }
  if (job.train.dtype != precision) {
    return failure(fmt::format("{}: the deepspeed map trains in {}, 'precision' is {}; make them agree",
                               section.where(), name_of(job.train.dtype), name_of(precision)));
  }
  const bool restates_batch =
      job.global_batch > 0 && (job.train.micro_batch == 0 || job.train.micro_batches == 0);
  if (restates_batch) {
    job.train.micro_batch = std::max<std::int64_t>(micro_batch, 1);
    job.train.micro_batches = std::max<std::int64_t>(micro_batches, 1);
  }
  if (micro_batch != k_absent && job.train.micro_batch != micro_batch) {
    return failure(
        fmt::format("{}: train_micro_batch_size_per_gpu is {}, 'micro_batch' is {}; make them agree",
                    section.where(), job.train.micro_batch, micro_batch));
  }
  if (micro_batches != k_absent && job.train.micro_batches != micro_batches) {
    return failure(
        fmt::format("{}: gradient_accumulation_steps is {}, 'micro_batches' is {}; make them agree",
                    section.where(), job.train.micro_batches, micro_batches));
  }
  return {};
}

}  // namespace commlens::deepspeed
