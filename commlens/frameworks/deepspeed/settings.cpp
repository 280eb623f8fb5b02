// Settings that follow from others, and sizes as the command line and the memory estimate want them.
#include <algorithm>

#include <fmt/format.h>

#include "commlens/frameworks/deepspeed/engine.hpp"
#include "commlens/frameworks/deepspeed/framework.hpp"
#include "commlens/frameworks/deepspeed/options.hpp"
#include "commlens/frameworks/frameworks.hpp"

namespace commlens::deepspeed {
bool runs(const Job& job) { return rules_of(job).engine == k_name; }

bool is_of_transformers(const Job& job) {
  const Options& own = options(job);
  const bool is_split = job.layout.cp > 1 && job.model.family == Family::llama;
  return own.is_trainer || own.is_accelerate || own.auto_ep || is_split;
}

void settle_width_sizes(Job& job) {
  constexpr std::int64_t widest = 1'000'000'000;  // beyond it no job is valid, and the square overflows
  const std::int64_t hidden = job.model.hidden;
  const WidthSizes follows = options(job).follows_width;
  if (hidden < 1 || hidden > widest) {
    return;
  }
  if (follows.reduce_bucket) {
    options(job).reduce_bucket_size = hidden * hidden;
  }
  if (follows.prefetch_bucket) {
    const auto width = static_cast<double>(hidden);
    options(job).prefetch_bucket_size = static_cast<std::int64_t>(0.9 * width * width);  // in Python's order
  }
  if (follows.persistence_threshold) {
    job.train.persistence_threshold = 10 * hidden;
  }
}

Bytes bucket(const Job& job) {
  return job.train.zero_stage == 0 ? Bytes{}
                                   : Elements{options(job).reduce_bucket_size} * communication_dtype(job);
}

/// The engine counts elements of the dtype it reduces in.
Result<void> set_bucket(Job& job, Bytes bucket) {
  const Result<Elements> elements = elements_in(bucket, communication_dtype(job));
  if (!elements) {
    return failure(fmt::format("--bucket: {}", elements.error().message));
  }
  options(job).reduce_bucket_size = elements->value;
  options(job).follows_width.reduce_bucket = false;
  return {};
}

}  // namespace commlens::deepspeed
