#include "commlens/frameworks/huggingface/model_types.hpp"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "commlens/frameworks/huggingface/options.hpp"
#include "commlens/frameworks/recipe_reader.hpp"
#include "commlens/frameworks/training_keys.hpp"

namespace commlens::huggingface {
namespace {

void read_gpt2(MapReader& config, Job& job) {
  ModelConfig& model = job.model;
  config.require("n_layer", model.layers);
  config.require("n_embd", model.hidden);
  config.require("n_head", model.heads);
  config.require("n_positions", model.max_positions);
  config.read("n_inner", model.ffn_hidden);
  model.positions = Positions::learned;
  model.tied_embeddings = true;
  model.activation = Activation::gelu_tanh;  // gelu_new, the default of GPT2Config
  for (const std::string_view key : {"attn_pdrop", "embd_pdrop", "resid_pdrop"}) {
    if (!config.has(key)) {
      job.recipe.not_honoured.push_back(not_honoured_text(key, "0.1, the default", "no dropout"));
    }
  }
}

void read_sizes(MapReader& config, ModelConfig& model) {
  config.require("num_hidden_layers", model.layers);
  config.require("hidden_size", model.hidden);
  config.require("num_attention_heads", model.heads);
  config.require("intermediate_size", model.ffn_hidden);
  config.require("max_position_embeddings", model.max_positions);
  config.read("head_dim", model.head_dim);
  model.positions = Positions::rotary;
}

void read_gpt_neox(MapReader& config, Job& job) {
  ModelConfig& model = job.model;
  read_sizes(config, model);
  model.parallel_residual = true;
  model.rotary_fraction = 0.25;  // the default of GPTNeoXConfig
  config.read("partial_rotary_factor", model.rotary_fraction);
  config.read("rotary_pct", model.rotary_fraction);
  model.initialisation.output_method = InitMethod::normal;  // GPTNeoXPreTrainedModel._init_weights
  if (!(model.rotary_fraction >= 0 && model.rotary_fraction <= 1)) {
    config.fail("rotary_pct", "is not between 0 and 1");
  }
  config.read("use_parallel_residual", model.parallel_residual);
  bool has_bias = true;
  config.read("attention_bias", has_bias);
  if (!has_bias) {
    config.fail("attention_bias", "is false, which is not supported");
  }
}

void set_llama(ModelConfig& model) {
  model.family = Family::llama;
  model.gated_mlp = true;
  model.linear_bias = model.qkv_bias = model.norm_bias = false;
}

void read_llama(MapReader& config, Job& job) {
  read_sizes(config, job.model);
  config.read("num_key_value_heads", job.model.kv_heads);
  set_llama(job.model);
  config.refuse_true("attention_bias", "is not supported");
  config.refuse_true("mlp_bias", "is not supported");
}

void read_mixtral(MapReader& config, Job& job) {
  read_llama(config, job);
  config.require("num_local_experts", job.model.experts);
  config.require("num_experts_per_tok", job.model.top_k);
}

void read_qwen2(MapReader& config, Job& job) {
  read_llama(config, job);
  job.model.qkv_bias = true;
}

void read_qwen3(MapReader& config, Job& job) {
  if (!config.has("head_dim")) {
    job.model.head_dim = 128;  // the default of Qwen3Config
  }
  read_llama(config, job);
  job.model.qk_norm = true;
}

/// The first layers of a mixture may have an MLP: those that `key` lists, which must be these.
void read_first_layers(MapReader& config, std::string_view key, ModelConfig& model) {
  std::vector<std::int64_t> layers;
  config.read(key, layers, 0);
  std::sort(layers.begin(), layers.end());
  layers.erase(std::unique(layers.begin(), layers.end()), layers.end());
  for (std::size_t at = 0; at < layers.size(); ++at) {
    if (layers[at] != static_cast<std::int64_t>(at)) {
      config.fail(key, "has layers after one with experts, which is not supported");
      return;
    }
  }
  model.dense_layers = std::ssize(layers);
}

void read_qwen3_moe(MapReader& config, Job& job) {
  ModelConfig& model = job.model;
  read_llama(config, job);
  model.qk_norm = true;
  config.read("num_local_experts", model.experts);
  config.read("num_experts", model.experts);
  if (model.experts == 0) {
    config.require("num_experts", model.experts);
  }
  config.require("num_experts_per_tok", model.top_k);
  config.require("moe_intermediate_size", model.moe_hidden);
  read_first_layers(config, "mlp_only_layers", model);
  std::int64_t step = 1;
  config.read("decoder_sparse_step", step);
  if (step != 1) {
    config.fail("decoder_sparse_step", fmt::format("is {}; only experts in each layer are supported", step));
  }
}

/// Multi-head latent attention, shared experts and leading layers without experts.
void read_deepseek(MapReader& config, Job& job) {
  ModelConfig& model = job.model;
  read_sizes(config, model);
  set_llama(model);
  config.refuse_true("attention_bias", "is not supported");
  config.refuse_true("mlp_bias", "is not supported");
  config.accept("num_key_value_heads");  // latent attention has none of its own
  LatentAttention& latent = model.latent;
  config.read("q_lora_rank", latent.query_rank);
  config.read("kv_lora_rank", latent.kv_rank);
  config.read("qk_nope_head_dim", latent.nope_dim);
  config.read("qk_rope_head_dim", latent.rope_dim);
  config.read("v_head_dim", latent.value_dim);
  model.head_dim = latent.value_dim;
  config.require("n_routed_experts", model.experts);
  config.require("num_experts_per_tok", model.top_k);
  config.require("moe_intermediate_size", model.moe_hidden);
  config.read("n_shared_experts", model.shared_experts, 0);
  config.read("first_k_dense_replace", model.dense_layers, 0);
  config.skip_unless_one("moe_layer_freq");
}

void read_gpt_oss(MapReader& config, Job& job) {
  ModelConfig& model = job.model;
  if (!config.has("head_dim")) {
    model.head_dim = 64;  // the default of GptOssConfig
  }
  read_sizes(config, model);
  config.read("num_key_value_heads", model.kv_heads);
  set_llama(model);
  bool has_bias = true;
  config.read("attention_bias", has_bias);
  if (!has_bias) {
    config.fail("attention_bias", "is false, which is not supported");
  }
  model.linear_bias = model.qkv_bias = model.router_bias = model.attention_sinks = true;
  config.require("num_local_experts", model.experts);
  config.read("num_experts_per_tok", model.top_k);
  if (model.top_k == 0) {
    config.require("experts_per_token", model.top_k);
  }
  model.moe_hidden = model.ffn_hidden;
}

/// What a key that is left out stands for in a configuration class of transformers 5.23, where it is not what
/// follows from the others. A key that is null stands for none.
struct ClassDefaults {
  std::string_view type;
  std::int64_t kv_heads = 0;  // num_key_value_heads; 0: as many as heads
  double rotary_base = 1e4;   // default_theta
  std::int64_t window = 0;    // sliding_window
  std::int64_t shared_experts = 0;
  std::int64_t dense_layers = 0;  // first_k_dense_replace
};

constexpr ClassDefaults k_defaults[] = {{.type = "mistral", .kv_heads = 8, .window = 4096},
                                        {.type = "mixtral", .kv_heads = 8, .rotary_base = 1e6},
                                        {.type = "qwen2", .kv_heads = 32},
                                        {.type = "qwen3", .kv_heads = 32},
                                        {.type = "qwen3_moe", .kv_heads = 4},
                                        {.type = "gpt_oss", .kv_heads = 8, .rotary_base = 1.5e5},
                                        {.type = "deepseek_v2", .shared_experts = 2},
                                        {.type = "deepseek_v3", .shared_experts = 1, .dense_layers = 3}};

void set_defaults(const ConfigNode& config, const ClassDefaults& defaults, Job& job) {
  const auto lacks = [&](std::string_view key) { return find(config, key) == nullptr; };
  ModelConfig& model = job.model;
  model.rotary_base = defaults.rotary_base;
  if (lacks("num_key_value_heads")) {
    model.kv_heads = defaults.kv_heads;
  }
  if (defaults.window > 0 && lacks("sliding_window")) {
    job.recipe.attention_window = {"sliding_window", defaults.window};
  }
  if (!defaults.type.starts_with("deepseek")) {
    return;
  }
  model.latent = {lacks("q_lora_rank") ? 1536 : 0, 512, 128, 64, 128};
  model.shared_experts = lacks("n_shared_experts") ? defaults.shared_experts : 0;
  model.dense_layers = lacks("first_k_dense_replace") ? defaults.dense_layers : 0;
}

using Read = void (*)(MapReader&, Job&);

}  // namespace

void read_model_type(MapReader& reader, const ConfigNode& config, Job& job) {
  Read read = nullptr;
  reader.choose<Read>("model_type",
                      {{"gpt2", read_gpt2},
                       {"gpt_neox", read_gpt_neox},
                       {"llama", read_llama},
                       {"mistral", read_llama},
                       {"mixtral", read_mixtral},
                       {"qwen2", read_qwen2},
                       {"qwen3", read_qwen3},
                       {"qwen3_moe", read_qwen3_moe},
                       {"deepseek_v2", read_deepseek},
                       {"deepseek_v3", read_deepseek},
                       {"gpt_oss", read_gpt_oss}},
                      read);
  if (reader.failed()) {
    return;
  }
  if (read == nullptr) {
    reader.fail_at(config, "'model_type' is missing");
    return;
  }
  std::string& type = options(job).model_type;
  reader.read("model_type", type);
  for (const ClassDefaults& defaults : k_defaults) {
    if (defaults.type == type) {
      set_defaults(config, defaults, job);
    }
  }
  read(reader, job);
}

}  // namespace commlens::huggingface
