// The model map of a case with torchtitan.
#include "commlens/frameworks/torchtitan/model_reader.hpp"

#include <fmt/format.h>

namespace commlens::torchtitan {
namespace {

void read_family(MapReader& reader, ModelConfig& model) {
  if (!reader.has("family")) {
    return;
  }
  Blocks blocks = Blocks::llama3;
  reader.choose("family",
                {{"llama", Blocks::llama3},
                 {"llama3", Blocks::llama3},
                 {"qwen3", Blocks::qwen3},
                 {"deepseek_v3", Blocks::deepseek},
                 {"kimi_k2_5", Blocks::deepseek},
                 {"gpt_oss", Blocks::gpt_oss}},
                blocks);
  const bool is_described = model.layers > 0;  // by a flavour, whose norms and biases stay
  if (!is_described) {
    set_blocks(model, blocks);
  }
}

void read_sizes(MapReader& reader, ModelConfig& model) {
  reader.read("layers", model.layers);
  reader.read("hidden", model.hidden);
  reader.read("heads", model.heads);
  reader.read("kv_heads", model.kv_heads);
  reader.read("head_dim", model.head_dim);
  reader.read("ffn_hidden", model.ffn_hidden);
  reader.read("vocab", model.raw_vocab);
  reader.read("sequence", model.sequence);
  model.vocab = model.raw_vocab;
  model.max_positions = model.sequence;
  reader.read("tied_embeddings", model.tied_embeddings);
  reader.read("qk_norm", model.qk_norm);
  reader.read("attention_sinks", model.attention_sinks);
}

Result<void> read_latent(MapReader& reader, LatentAttention& latent, ReaderNotes notes) {
  const ConfigNode* const map = reader.map("mla");
  if (map == nullptr) {
    return {};
  }
  MapReader inner(*map, notes);
  inner.read("q_lora", latent.query_rank, 0);
  inner.read("kv_lora", latent.kv_rank);
  inner.read("nope", latent.nope_dim);
  inner.read("rope", latent.rope_dim);
  inner.read("v", latent.value_dim);
  return inner.finish();
}

void read_experts(MapReader& reader, TitanModel& model) {
  ModelConfig& config = model.config;
  reader.read("experts", config.experts, 0);
  reader.read("top_k", config.top_k, 0);
  reader.read("moe_hidden", config.moe_hidden, 0);
  reader.read("dense_layers", config.dense_layers, 0);
  reader.read("shared_experts", config.shared_experts, 0);
  reader.read("router_bias", config.router_bias);
  std::int64_t shared = 0;
  reader.read("shared_experts_hidden", shared, 0);
  if (shared > 0 && (config.moe_hidden < 1 || shared % config.moe_hidden != 0)) {
    reader.fail("shared_experts_hidden",
                fmt::format("is {}, no multiple of moe_hidden {}", shared, config.moe_hidden));
  } else if (shared > 0) {
    config.shared_experts = shared / config.moe_hidden;
  }
  double coefficient = model.balances_experts ? 1 : 0;
  reader.read("load_balance_coeff", coefficient);
  model.balances_experts = coefficient > 0;
  reader.choose("dispatcher",
                {{"all_to_all", Dispatcher::all_to_all},
                 {"AllToAllTokenDispatcher.Config", Dispatcher::all_to_all},
                 {"deepep", Dispatcher::deepep},
                 {"DeepEPTokenDispatcher.Config", Dispatcher::deepep},
                 {"hybridep", Dispatcher::hybridep},
                 {"HybridEPTokenDispatcher.Config", Dispatcher::hybridep},
                 {"minimal_async_ep", Dispatcher::minimal_async_ep},
                 {"MinimalAsyncEPTokenDispatcher.Config", Dispatcher::minimal_async_ep}},
                model.dispatcher);
  if (config.experts > 0 && config.dense_layers == 0 && config.ffn_hidden == 0) {
    config.ffn_hidden = config.moe_hidden;  // no layer has it
  }
}

}  // namespace

Result<TitanModel> titan_model(const Flavour& flavour, std::int64_t sequence, std::string_view where) {
  if (!flavour.not_modelled.empty()) {
    return failure(fmt::format("{}: the model {} {} has {}, for which there are no rules", where,
                               flavour.module, flavour.name, flavour.not_modelled));
  }
  return TitanModel{.config = model_of(flavour, sequence),
                    .flavour = std::string(flavour.name),
                    .fuses_qkv = flavour.fuses_qkv,
                    .balances_experts = flavour.experts > 0};  // by 0.001 in all flavours
}

Result<void> read_model(const ConfigNode& map, TitanModel& model, ReaderNotes notes) {
  MapReader reader(map, notes);
  if (model.config.layers == 0) {
    set_blocks(model.config, Blocks::llama3);
  }
  read_family(reader, model.config);
  read_sizes(reader, model.config);
  reader.read("fused_qkv", model.fuses_qkv);
  if (const Result<void> ok = read_latent(reader, model.config.latent, notes); !ok) {
    return ok;
  }
  read_experts(reader, model);
  reader.accept("name flavor");
  for (const auto& [key, size] :
       {std::pair("layers", model.config.layers), std::pair("hidden", model.config.hidden),
        std::pair("heads", model.config.heads), std::pair("vocab", model.config.raw_vocab),
        std::pair("ffn_hidden", model.config.ffn_hidden)}) {
    if (size == 0 && !reader.failed()) {
      reader.fail_at(map, fmt::format("'{}' is missing, of a model that torchtitan does not come with", key));
    }
  }
  return reader.finish();
}

void apply(const TitanModel& model, Options& options) {
  options.flavour = model.flavour;
  options.fuses_qkv = model.fuses_qkv;
  options.balances_experts = model.balances_experts;
  options.dispatcher = model.dispatcher;
}

}  // namespace commlens::torchtitan
