// A case file of the framework: a model's config.json and what trains it, in maps of their own.
#include <fmt/format.h>

#include "commlens/config/map_reader.hpp"
#include "commlens/frameworks/huggingface/accelerate.hpp"
#include "commlens/frameworks/huggingface/framework.hpp"
#include "commlens/frameworks/huggingface/options.hpp"
#include "commlens/frameworks/huggingface/reader.hpp"
#include "commlens/frameworks/huggingface/training_arguments.hpp"

namespace commlens::huggingface {
namespace {

/// Arguments of from_pretrained().
Result<void> read_from_pretrained(const ConfigNode& section, Job& job) {
  MapReader reader(section, {job.warnings, job.unmodelled});
  bool is_split = false;
  reader.choose("tp_plan", {{"auto", true}}, is_split);
  for (const std::string_view key : {"torch_dtype", "dtype"}) {
    reader.choose(key, {{"float32", DType::fp32}, {"float16", DType::fp16}, {"bfloat16", DType::bf16}},
                  job.train.dtype);
  }
  reader.accept("attn_implementation low_cpu_mem_usage");
  if (is_split) {
    job.layout.dp = 1;
    job.layout.tp = job.layout.ranks;
  }
  return reader.finish();
}

Result<void> read_case_sections(MapReader& reader, Job& job) {
  const ConfigNode* const accelerate = reader.map("accelerate");
  const ConfigNode* const arguments = reader.map("training_arguments");
  const ConfigNode* const pretrained = reader.map("from_pretrained");
  if (reader.failed()) {
    return {};
  }
  if (accelerate != nullptr) {
    if (const Result<void> ok = read_accelerate(*accelerate, job); !ok) {
      return ok;
    }
  }
  if (arguments != nullptr) {
    if (const Result<void> ok = read_training_arguments(*arguments, job); !ok) {
      return ok;
    }
  }
  return pretrained == nullptr ? Result<void>{} : read_from_pretrained(*pretrained, job);
}

}  // namespace

Result<Job> read_case(MapReader& document, const std::string& /*version*/) {
  const ConfigNode* const config = document.map("hf_config");
  if (!document.failed() && config == nullptr) {
    document.fail("hf_config", "is missing: the config.json of the model");
  }
  if (document.failed() || config == nullptr) {
    return tl::unexpected(document.finish().error());
  }
  Result<Job> read = job_from_hf(*config);
  if (!read) {
    return read;
  }
  Job& job = *read;
  job.framework = k_name;
  job.is_converted = false;
  job.train.dtype = DType::fp32;  // a model that is built from its configuration
  job.train.micro_batch = 1;
  options(job).longest_sequence = 0;  // what is recorded is not a guess
  document.read("ranks", job.layout.ranks);
  if (const Result<void> ok = read_case_sections(document, job); !ok) {
    return tl::unexpected(ok.error());
  }
  if (document.has("batch")) {
    document.read("batch", job.train.micro_batch);
  }
  document.read("sequence", job.model.sequence);
  document.read("torch_version", options(job).torch_version);
  document.read("accelerate_version", options(job).accelerate_version);
  document.accept("loop ranks_recorded recorded_ranks");
  return read;
}

}  // namespace commlens::huggingface
