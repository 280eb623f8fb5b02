// Models that are published with a config.json, by their name in lower case.
#include <algorithm>
#include <array>
#include <cctype>
#include <string>

#include "commlens/frameworks/huggingface/options.hpp"
#include "commlens/frameworks/huggingface/reader.hpp"
#include "commlens/frameworks/torch/framework.hpp"

namespace commlens::huggingface {
namespace {

enum class Kind : std::uint8_t {
  llama,    // no biases, RMSNorm, gated MLP
  qwen2,    // biases of queries, keys and values
  qwen3,    // norms of queries and keys
  gpt_oss,  // biases everywhere but in norms, attention sinks
};

/// Sizes as in the config.json of the published checkpoint; `sequence` is the length that the model was
/// mostly trained with, as its report says, or what its family used.
struct Row {
  std::string_view name;
  Kind kind = Kind::llama;
  std::int64_t layers = 0;
  std::int64_t hidden = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 128;
  std::int64_t ffn_hidden = 0;
  std::int64_t vocab = 0;
  std::int64_t sequence = 4096;
  bool is_tied = false;
  std::int64_t experts = 0;
  std::int64_t top_k = 0;
  std::int64_t moe_hidden = 0;
  std::int64_t dense_layers = 0;
  std::int64_t shared_experts = 0;
  LatentAttention latent = {};
};

constexpr LatentAttention latent(std::int64_t query_rank) { return {query_rank, 512, 128, 64, 128}; }

constexpr std::array k_rows = {
    // arXiv 2302.13971, 2307.09288, 2407.21783 and the checkpoints of 3.2
    Row{"llama-7b", Kind::llama, 32, 4096, 32, 32, 128, 11008, 32'000, 2048},
    Row{"llama-13b", Kind::llama, 40, 5120, 40, 40, 128, 13824, 32'000, 2048},
    Row{"llama-65b", Kind::llama, 80, 8192, 64, 64, 128, 22016, 32'000, 2048},
    Row{"llama2-7b", Kind::llama, 32, 4096, 32, 32, 128, 11008, 32'000},
    Row{"llama2-13b", Kind::llama, 40, 5120, 40, 40, 128, 13824, 32'000},
    Row{"llama2-70b", Kind::llama, 80, 8192, 64, 8, 128, 28672, 32'000},
    Row{"llama3-8b", Kind::llama, 32, 4096, 32, 8, 128, 14336, 128'256, 8192},
    Row{"llama3-70b", Kind::llama, 80, 8192, 64, 8, 128, 28672, 128'256, 8192},
    Row{"llama3-405b", Kind::llama, 126, 16384, 128, 8, 128, 53248, 128'256, 8192},
    Row{"llama3.2-1b", Kind::llama, 16, 2048, 32, 8, 64, 8192, 128'256, 8192, true},
    Row{"llama3.2-3b", Kind::llama, 28, 3072, 24, 8, 128, 8192, 128'256, 8192, true},
    Row{"mistral-7b", Kind::llama, 32, 4096, 32, 8, 128, 14336, 32'000, 8192},
    // arXiv 2412.15115, 2505.09388
    Row{"qwen2.5-0.5b", Kind::qwen2, 24, 896, 14, 2, 64, 4864, 151'936, 4096, true},
    Row{"qwen2.5-7b", Kind::qwen2, 28, 3584, 28, 4, 128, 18944, 152'064},
    Row{"qwen2.5-14b", Kind::qwen2, 48, 5120, 40, 8, 128, 13824, 152'064},
    Row{"qwen2.5-32b", Kind::qwen2, 64, 5120, 40, 8, 128, 27648, 152'064},
    Row{"qwen2.5-72b", Kind::qwen2, 80, 8192, 64, 8, 128, 29568, 152'064},
    Row{"qwen3-0.6b", Kind::qwen3, 28, 1024, 16, 8, 128, 3072, 151'936, 4096, true},
    Row{"qwen3-1.7b", Kind::qwen3, 28, 2048, 16, 8, 128, 6144, 151'936, 4096, true},
    Row{"qwen3-4b", Kind::qwen3, 36, 2560, 32, 8, 128, 9728, 151'936, 4096, true},
    Row{"qwen3-8b", Kind::qwen3, 36, 4096, 32, 8, 128, 12288, 151'936},
    Row{"qwen3-14b", Kind::qwen3, 40, 5120, 40, 8, 128, 17408, 151'936},
    Row{"qwen3-32b", Kind::qwen3, 64, 5120, 64, 8, 128, 25600, 151'936},
    Row{"qwen3-30b-a3b", Kind::qwen3, 48, 2048, 32, 4, 128, 6144, 151'936, 4096, false, 128, 8, 768},
    Row{"qwen3-235b-a22b", Kind::qwen3, 94, 4096, 64, 4, 128, 12288, 151'936, 4096, false, 128, 8, 1536},
    // arXiv 2401.04088
    Row{"mixtral-8x7b", Kind::llama, 32, 4096, 32, 8, 128, 14336, 32'000, 8192, false, 8, 2, 14336},
    Row{"mixtral-8x22b", Kind::llama, 56, 6144, 48, 8, 128, 16384, 32'000, 8192, false, 8, 2, 16384},
    // arXiv 2405.04434, 2412.19437
    Row{"deepseek-v2-lite", Kind::llama, 27, 2048, 16, 16, 128, 10944, 102'400, 4096, false, 64, 6, 1408, 1,
        2, latent(0)},
    Row{"deepseek-v2", Kind::llama, 60, 5120, 128, 128, 128, 12288, 102'400, 4096, false, 160, 6, 1536, 1, 2,
        latent(1536)},
    Row{"deepseek-v3", Kind::llama, 61, 7168, 128, 128, 128, 18432, 129'280, 4096, false, 256, 8, 2048, 3, 1,
        latent(1536)},
    // arXiv 2508.10925
    Row{"gpt-oss-20b", Kind::gpt_oss, 24, 2880, 64, 8, 64, 2880, 201'088, 4096, false, 32, 4, 2880},
    Row{"gpt-oss-120b", Kind::gpt_oss, 36, 2880, 64, 8, 64, 2880, 201'088, 4096, false, 128, 4, 2880},
};

constexpr std::array<std::string_view, k_rows.size()> k_names = [] {
  std::array<std::string_view, k_rows.size()> names;
  std::transform(k_rows.begin(), k_rows.end(), names.begin(), [](const Row& row) { return row.name; });
  return names;
}();

ModelConfig model_of(const Row& row) {
  ModelConfig model;
  model.name = row.name;
  model.family = Family::llama;
  model.layers = row.layers;
  model.hidden = row.hidden;
  model.heads = row.heads;
  model.kv_heads = row.kv_heads;
  model.head_dim = row.head_dim;
  model.ffn_hidden = row.ffn_hidden;
  model.vocab = model.raw_vocab = row.vocab;
  model.sequence = model.max_positions = row.sequence;
  model.tied_embeddings = row.is_tied;
  model.gated_mlp = true;
  model.norm_bias = false;
  model.linear_bias = model.router_bias = model.attention_sinks = row.kind == Kind::gpt_oss;
  model.qkv_bias = row.kind == Kind::gpt_oss || row.kind == Kind::qwen2;
  model.qk_norm = row.kind == Kind::qwen3;
  model.experts = row.experts;
  model.top_k = row.top_k;
  model.moe_hidden = row.moe_hidden;
  model.dense_layers = row.dense_layers;
  model.shared_experts = row.shared_experts;
  model.latent = row.latent;
  return model;
}

/// The model type of its config.json.
std::string_view type_of(const Row& row) {
  switch (row.kind) {
    case Kind::qwen2:
      return "qwen2";
    case Kind::qwen3:
      return row.experts > 0 ? "qwen3_moe" : "qwen3";
    case Kind::gpt_oss:
      return "gpt_oss";
    case Kind::llama:
      break;
  }
  if (row.latent.is_used()) {
    return row.name.starts_with("deepseek-v3") ? "deepseek_v3" : "deepseek_v2";
  }
  return row.experts > 0 ? "mixtral" : row.name.starts_with("mistral") ? "mistral" : "llama";
}

}  // namespace

std::span<const std::string_view> preset_names() { return k_names; }

std::optional<Job> preset(std::string_view name) {
  std::string lower(name);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  const auto* const row =
      std::find_if(k_rows.begin(), k_rows.end(), [&](const Row& one) { return one.name == lower; });
  if (row == k_rows.end()) {
    return std::nullopt;
  }
  Job job;
  job.framework = pytorch::k_fsdp;
  job.model = model_of(*row);
  options(job).model_type = type_of(*row);
  job.train.dtype = DType::bf16;
  job.is_converted = true;  // the dtype is the checkpoint's
  return job;
}

}  // namespace commlens::huggingface
