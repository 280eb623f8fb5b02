// The models that GPT-NeoX comes with.
#include <algorithm>
#include <array>
#include <cctype>
#include <string>

#include "commlens/frameworks/deepspeed/options.hpp"
#include "commlens/frameworks/neox/behaviour.hpp"
#include "commlens/frameworks/neox/options.hpp"
#include "commlens/frameworks/neox/reader.hpp"

namespace commlens::neox {
namespace {

/// One row of gpt-neox configs/*.yml at 4bc66703; what all rows share is in `preset`.
struct Row {
  std::string_view name;
  std::int64_t layers;
  std::int64_t hidden;
  std::int64_t heads;
  std::int64_t bucket = 500'000'000;  // zero_optimization.reduce_bucket_size, elements
  bool partition_activations = true;
  bool gpt_j_residual = false;
};

constexpr std::array<Row, 11> k_rows = {{
    {"19M", 6, 512, 8},
    {.name = "49M", .layers = 10, .hidden = 640, .heads = 10, .gpt_j_residual = true},
    {"125M", 12, 768, 12},
    {"350M", 24, 1024, 16},
    {"760M", 24, 1536, 16},
    {"1.3B", 24, 2048, 16},
    {"2.7B", 32, 2560, 32},
    {"6.7B", 32, 4096, 32},
    {"13B", 40, 5120, 40},
    {"20B", 44, 6144, 64, 1'260'000'000, false, true},
    {"175B", 96, 12288, 96},
}};

constexpr std::array<std::string_view, k_rows.size()> k_names = [] {
  std::array<std::string_view, k_rows.size()> names;
  std::transform(k_rows.begin(), k_rows.end(), names.begin(), [](const Row& row) { return row.name; });
  return names;
}();

/// "1-3b" -> "1.3B".
std::string canonical(std::string_view name) {
  std::string text(name);
  std::replace(text.begin(), text.end(), '-', '.');
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::toupper(letter)); });
  return text;
}

ModelConfig model_of(const Row& row) {
  ModelConfig model;
  model.name = row.name;
  model.layers = row.layers;
  model.hidden = row.hidden;
  model.heads = row.heads;
  model.kv_heads = row.heads;
  model.head_dim = row.hidden / row.heads;
  model.ffn_hidden = 4 * row.hidden;
  model.sequence = 2048;
  model.max_positions = 2048;
  model.raw_vocab = 50257;  // GPT-2's byte-pair encoding
  model.vocab_multiple = 128;
  model.positions = Positions::rotary;
  model.parallel_residual = row.gpt_j_residual;
  return with_padded_vocab(model, 1);
}

Job job_of(const Row& row) {
  Job job;
  job.framework = k_name;
  job.framework_version = k_default_version;
  job.model = model_of(row);
  job.train.micro_batch = 4;
  job.train.dtype = DType::fp16;
  job.train.dtype_is_chosen = false;
  job.train.recompute = Recompute::full;
  job.train.gradient_clipping = 1.0;
  job.train.zero_stage = 1;
  deepspeed::options(job).reduce_bucket_size = row.bucket;
  deepspeed::options(job).overlap_comm = true;
  deepspeed::options(job).weight_decay_groups = true;
  deepspeed::options(job).attention_mask = true;
  job.train.partition_activations = row.partition_activations;
  return job;
}

}  // namespace

std::span<const std::string_view> preset_names() { return k_names; }

std::optional<Job> preset(std::string_view name) {
  const auto* const row = std::find_if(k_rows.begin(), k_rows.end(),
                                       [&](const Row& each) { return each.name == canonical(name); });
  return row == k_rows.end() ? std::nullopt : std::optional(job_of(*row));
}

}  // namespace commlens::neox
