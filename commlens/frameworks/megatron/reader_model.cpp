// The model that arguments of Megatron describe.
#include <algorithm>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "commlens/config/shell_values.hpp"
#include "commlens/frameworks/megatron/layer_pattern.hpp"
#include "commlens/frameworks/megatron/options.hpp"
#include "commlens/frameworks/megatron/reader_parts.hpp"

namespace commlens::megatron {
namespace {

void read_sizes(MapReader& arguments, ModelConfig& model) {
  arguments.read("encoder_num_layers", model.layers);
  arguments.read("encoder_seq_length", model.sequence);
  if (model.layers == 0) {
    arguments.require("num_layers", model.layers);
  }
  if (model.sequence == 0) {
    arguments.require("seq_length", model.sequence);
  }
  arguments.accept("num_layers seq_length");
  arguments.require("hidden_size", model.hidden);
  arguments.require("num_attention_heads", model.heads);
  arguments.require("max_position_embeddings", model.max_positions);
  if (!arguments.failed() && model.max_positions < model.sequence) {
    arguments.fail("max_position_embeddings",
                   fmt::format("is {}, less than seq_length {}; Megatron needs at least that",
                               model.max_positions, model.sequence));
  }
  arguments.read("kv_channels", model.head_dim);
  bool grouped = false;
  arguments.read("group_query_attention", grouped);
  std::int64_t groups = 1;
  arguments.read("num_query_groups", groups);
  model.kv_heads = grouped ? groups : model.heads;
}

void read_mlp(MapReader& arguments, ModelConfig& model) {
  bool is_swiglu = false;
  bool is_geglu = false;
  arguments.read("swiglu", is_swiglu);
  arguments.read("quick_geglu", is_geglu);
  model.gated_mlp = is_swiglu || is_geglu;
  arguments.read("ffn_hidden_size", model.ffn_hidden);
  if (model.ffn_hidden == 0 && is_swiglu) {
    // arguments.py: two thirds of 4h, rounded down to a multiple of 64
    model.ffn_hidden = static_cast<std::int64_t>(static_cast<double>(4 * model.hidden) * 2 / 3) / 64 * 64;
  }
  model.family = model.gated_mlp ? Family::llama : Family::gpt;
  bool no_bias = false;
  arguments.read("disable_bias_linear", no_bias);
  model.linear_bias = !no_bias;
  model.qkv_bias = !no_bias;
  bool qkv_bias = false;
  arguments.read("add_qkv_bias", qkv_bias);
  model.qkv_bias = model.qkv_bias || qkv_bias;
  arguments.choose("normalization", {{"LayerNorm", true}, {"RMSNorm", false}}, model.norm_bias);
  arguments.read("qk_layernorm", model.qk_norm);
}

void read_positions(MapReader& arguments, ModelConfig& model) {
  model.positions = Positions::learned;
  arguments.choose("position_embedding_type",
                   {{"learned_absolute", Positions::learned},
                    {"rope", Positions::rotary},
                    {"yarn", Positions::rotary},
                    {"mrope", Positions::rotary},
                    {"none", Positions::none}},
                   model.positions);
  bool rotary = false;
  arguments.read("use_rotary_position_embeddings", rotary);
  model.positions = rotary ? Positions::rotary : model.positions;
}

void read_vocabulary(MapReader& arguments, ModelConfig& model, std::int64_t padded_vocab) {
  bool untied = false;
  arguments.read("untie_embeddings_and_output_weights", untied);
  model.tied_embeddings = !untied;
  model.vocab_multiple = 128;
  arguments.read("make_vocab_size_divisible_by", model.vocab_multiple);
  model.raw_vocab = 50257;  // GPT2BPETokenizer
  arguments.read("vocab_size", model.raw_vocab);
  std::string tokenizer = "GPT2BPETokenizer";
  arguments.read("tokenizer_type", tokenizer);
  arguments.read("padded_vocab_size", padded_vocab);
  bool is_not_padded = false;
  arguments.read("no_pad_vocab_size", is_not_padded);
  if (is_not_padded && padded_vocab == 0) {
    padded_vocab = model.raw_vocab;
  }
  model.vocab_is_padded = padded_vocab > 0;
  model.vocab_is_assumed =
      padded_vocab == 0 && tokenizer != "GPT2BPETokenizer" && !arguments.has("vocab_size");
  if (padded_vocab > 0) {
    model.raw_vocab = model.vocab = padded_vocab;
  }
}

/// The layers of Transformer Engine, the default, choose a fused kernel; the local ones only if the arguments
/// ask for it. Source: Megatron-LM core_v0.7.0 megatron/training/arguments.py,
/// core/transformer/dot_product_attention.py.
void read_attention(MapReader& arguments, Job& job) {
  bool is_flash = false;
  arguments.read("use_flash_attn", is_flash);
  bool& is_engine = options(job).is_transformer_engine;
  arguments.choose("transformer_impl", {{"local", false}, {"transformer_engine", true}}, is_engine);
  job.train.attention = is_flash || is_engine ? Attention::flash : Attention::eager;
  arguments.choose("attention_backend",
                   {{"flash", Attention::flash},
                    {"fused", Attention::flash},
                    {"unfused", Attention::eager},
                    {"local", Attention::eager},
                    {"auto", job.train.attention}},
                   job.train.attention);
}

/// moe-layer-freq: every how many layers is a mixture, or a pattern.
void read_mixture_layers(MapReader& arguments, Job& job) {
  const ConfigNode* const frequency = arguments.node("moe_layer_freq");
  if (frequency == nullptr || arguments.failed() || job.model.experts == 0) {
    return;
  }
  Result<std::vector<bool>> pattern = layer_pattern(*frequency, job.model.layers);
  if (!pattern) {
    arguments.fail("moe_layer_freq", pattern.error().message);
    return;
  }
  const auto first = std::find(pattern->begin(), pattern->end(), true);
  const bool is_dense_first = std::find(first, pattern->end(), false) == pattern->end();
  job.model.dense_layers = is_dense_first ? first - pattern->begin() : 0;
  const bool is_plain = std::find(pattern->begin(), pattern->end(), false) == pattern->end();
  options(job).moe_layers = is_plain ? std::vector<bool>{} : std::move(*pattern);
}

}  // namespace

std::vector<std::string> read_words(MapReader& arguments, std::string_view key) {
  std::vector<std::string> words;
  const ConfigNode* const node = arguments.node(key);
  if (node == nullptr || arguments.failed()) {
    return words;
  }
  if (node->kind == ConfigNode::Kind::list) {
    arguments.read(key, words);
    return words;
  }
  std::string text;
  arguments.read(key, text);
  ShellValues nothing;
  for (ShellWord& word : nothing.split(text, node->line)) {
    words.push_back(std::move(word.text));
  }
  return words;
}

void read_model(MapReader& arguments, Job& job, std::int64_t padded_vocab) {
  read_sizes(arguments, job.model);
  read_mlp(arguments, job.model);
  read_positions(arguments, job.model);
  read_vocabulary(arguments, job.model, padded_vocab);
  read_attention(arguments, job);
  bool is_fused = false;
  arguments.read("cross_entropy_loss_fusion", is_fused);
  CrossEntropy fused = CrossEntropy::native;
  arguments.choose("cross_entropy_fusion_impl",
                   {{"native", CrossEntropy::native}, {"te", CrossEntropy::transformer_engine}}, fused);
  options(job).cross_entropy = is_fused ? fused : CrossEntropy::unfused;
}

void read_newer_model(MapReader& arguments, Job& job) {
  ModelConfig& model = job.model;
  Options& own = options(job);
  arguments.read("num_experts", model.experts, 0);
  std::int64_t top_k = 2;
  std::int64_t width = 0;
  arguments.read("moe_router_topk", top_k);
  arguments.read("moe_ffn_hidden_size", width);
  arguments.read("moe_shared_expert_intermediate_size", own.shared_expert_hidden, 0);
  arguments.read("moe_latent_size", own.moe_latent_hidden);
  arguments.accept("moe_layer_freq");
  if (model.experts > 0) {
    model.top_k = top_k;
    model.moe_hidden = width;
    const bool is_whole = model.expert_hidden() > 0 && own.shared_expert_hidden % model.expert_hidden() == 0;
    model.shared_experts = is_whole ? own.shared_expert_hidden / model.expert_hidden() : 0;
    read_mixture_layers(arguments, job);
  } else {
    own.shared_expert_hidden = own.moe_latent_hidden = 0;
  }
  arguments.read("mtp_num_layers", own.mtp_layers, 0);
  arguments.read("mtp_detach_heads", own.mtp_detaches_heads);
  bool is_latent = false;
  arguments.read("multi_latent_attention", is_latent);
  LatentAttention latent{.query_rank = 0, .kv_rank = 32, .nope_dim = 128, .rope_dim = 64, .value_dim = 128};
  arguments.read("q_lora_rank", latent.query_rank, 0);
  arguments.read("kv_lora_rank", latent.kv_rank);
  arguments.read("qk_head_dim", latent.nope_dim);
  arguments.read("qk_pos_emb_head_dim", latent.rope_dim);
  arguments.read("v_head_dim", latent.value_dim);
  model.latent = is_latent ? latent : LatentAttention{};
}

}  // namespace commlens::megatron
