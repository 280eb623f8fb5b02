// The section of a case file with the settings of our trainer.
#include <fmt/format.h>

#include "commlens/config/map_reader.hpp"
#include "commlens/frameworks/commlens/framework.hpp"

namespace commlens::trainer {

Result<void> read_case_section(std::string_view /*name*/, const ConfigNode& section, Job& job) {
  Options& own = options(job);
  MapReader reader(section, {job.warnings, job.unmodelled});
  reader.read("bucket", own.bucket.value);
  reader.read("persistence_threshold", job.train.persistence_threshold, 0);
  reader.read("deepspeed_like", own.all_reduce_gradients);
  reader.read("hpz", job.train.hpz);
  reader.read("quantized_weights", job.train.quantized_weights);
  reader.read("quantized_gradients", job.train.quantized_gradients);
  reader.read("partition_activations", job.train.partition_activations);
  std::int64_t stage = job.train.zero_stage;
  reader.read("zero", stage, 0);
  if (stage > 3) {
    reader.fail("zero", fmt::format("is {}; it must be 0, 1, 2 or 3", stage));
  } else {
    job.train.zero_stage = static_cast<int>(stage);
  }
  reader.read("gradient_clipping", job.train.gradient_clipping);
  if (job.train.gradient_clipping < 0) {
    reader.fail("gradient_clipping", "must not be negative; 0 switches it off");
  }
  return reader.finish();
}

}  // namespace commlens::trainer
