#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "commlens/base/result.hpp"
#include "commlens/frameworks/torch/options.hpp"
#include "commlens/frameworks/torchtitan/options.hpp"
#include "commlens/model/model_config.hpp"
#include "commlens/model/train_config.hpp"

namespace commlens::torchtitan {

/// What the blocks of a model family are made of.
enum class Blocks : std::uint8_t {
  llama3,    // no biases, RMSNorm, gated MLP
  qwen3,     // norms of queries and keys
  deepseek,  // latent attention (MLA), leading dense layers, shared experts
  gpt_oss,   // biases everywhere but in norms, attention sinks
};

/// One entry of the tables `*_configs` of torchtitan/models/*/__init__.py, 0.3.0. Numbers are what the real
/// modules had when they were built on the meta device.
struct Flavour {
  std::string_view module;  // --module
  std::string_view name;    // "8B"
  Blocks blocks = Blocks::llama3;
  std::int64_t layers = 0;
  std::int64_t hidden = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t ffn_hidden = 0;  // of dense layers; 0 where all have experts
  std::int64_t vocab = 0;
  bool is_tied = false;
  std::int64_t experts = 0;
  std::int64_t top_k = 0;
  std::int64_t moe_hidden = 0;
  std::int64_t dense_layers = 0;
  std::int64_t shared_experts = 0;
  std::int64_t query_rank = 0;  // of latent attention
  bool fuses_qkv = true;
  std::string_view not_modelled =
      {};  // part of it that no rule covers, by name; the sizes are then not given
};

/// One function of torchtitan/models/*/config_registry.py, 0.3.0: what it sets. The defaults are those of the
/// dataclasses (torchtitan/config/configs.py).
struct Recipe {
  std::string_view module;
  std::string_view name;  // --config, "llama3_8b"
  std::string_view flavour;
  std::int64_t local_batch = 8;
  std::int64_t sequence = 2048;
  Recompute recompute = Recompute::selective;
  std::int64_t log_frequency = 10;
  std::int64_t checkpoint_interval = 500;
  std::int64_t tp = 1;
  std::int64_t ep = 1;
  std::int64_t loss_chunks = 8;  // 0: not ChunkedLossWrapper
  pytorch::PipelineSchedule schedule = pytorch::PipelineSchedule::one_f_one_b;
  Dispatcher dispatcher = Dispatcher::all_to_all;
  bool has_cuda_graphs = true;         // training.disable_cuda_graphs is false
  bool splits_sequence = true;         // parallelism.enable_sequence_parallel
  bool shards = true;                  // parallelism.data_parallel_shard_degree is -1, else 1
  bool saves_checkpoints = false;      // checkpoint.enable
  bool compiles_loss = false;          // compile.enable with components loss
  std::string_view not_modelled = {};  // what it sets that no rule covers, by name
};

std::span<const Flavour> flavours();
std::span<const Recipe> recipes();

/// The entry of that name; the error lists the names that the module has, or the modules.
Result<const Flavour*> flavour_named(std::string_view module, std::string_view name);
Result<const Recipe*> recipe_named(std::string_view module, std::string_view name);
/// The recipe that trains the flavour as it is, the first one that sets nothing that has no rules; null if
/// there is none.
const Recipe* recipe_of(const Flavour& flavour);
/// The flavour that has the sizes of the model (of those with rules), whatever the model's name; null if none
/// has.
const Flavour* flavour_like(const ModelConfig& model);

/// The model of a flavour that has rules, with `sequence` tokens. Its name is "llama3 8B".
ModelConfig model_of(const Flavour& flavour, std::int64_t sequence);
/// Sets what `blocks` have besides sizes: norms, biases, sinks and the gated MLP.
void set_blocks(ModelConfig& model, Blocks blocks);

}  // namespace commlens::torchtitan
