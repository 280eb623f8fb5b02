// Models and configurations that come with torchtitan 0.3.0. Sizes: shapes of the parameters of
// model_registry(flavour).model.build() on the meta device; settings: the fields of what each function of
// config_registry.py returns.
#include "commlens/frameworks/torchtitan/registry.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include <fmt/format.h>

#include "commlens/base/text.hpp"

namespace commlens::torchtitan {
namespace {

constexpr std::string_view k_swiglu = "weights of the MLP fused by overrides (fused_swiglu)";
constexpr std::string_view k_muon = "the optimizer DistMuon";
constexpr std::string_view k_loading = "weights that are loaded at the start";
constexpr std::string_view k_vision = "a vision tower";
constexpr std::string_view k_delta_net = "gated delta net";
constexpr std::string_view k_gate = "gated attention outputs with norms behind attention and MLP";
constexpr std::string_view k_images = "a diffusion model of images";
constexpr std::string_view k_float8 = "Float8 linear layers";
constexpr std::string_view k_mxfp8 = "MXFP8 linear layers";
constexpr std::string_view k_nvfp4 = "NVFP4 linear layers";

constexpr std::int64_t k_llama_vocab = 128'256;
constexpr std::int64_t k_qwen_vocab = 151'936;
constexpr std::int64_t k_oss_vocab = 201'088;
constexpr std::int64_t k_kimi_vocab = 163'840;

constexpr Flavour qwen3_moe(std::string_view name, std::int64_t layers, std::int64_t hidden,
                            std::int64_t heads, std::int64_t kv_heads) {
  return {.module = "qwen3",
          .name = name,
          .blocks = Blocks::qwen3,
          .layers = layers,
          .hidden = hidden,
          .heads = heads,
          .kv_heads = kv_heads,
          .head_dim = 128,
          .vocab = k_qwen_vocab,
          .experts = 128,
          .top_k = 8};
}

constexpr Flavour with_experts(Flavour flavour, std::int64_t experts, std::int64_t top_k,
                               std::int64_t width) {
  flavour.experts = experts;
  flavour.top_k = top_k;
  flavour.moe_hidden = width;
  return flavour;
}

constexpr Flavour with_leading(Flavour flavour, std::int64_t dense_layers, std::int64_t shared_experts,
                               std::int64_t query_rank) {
  flavour.dense_layers = dense_layers;
  flavour.shared_experts = shared_experts;
  flavour.query_rank = query_rank;
  return flavour;
}

/// Without rules: `part` is in the way.
constexpr Flavour refused(std::string_view module, std::string_view name, std::string_view part) {
  return {.module = module, .name = name, .not_modelled = part};
}

constexpr Flavour k_qwen3_debug{"qwen3", "debugmodel", Blocks::qwen3, 8, 256, 16, 8, 128, 3072, 2048, true};
constexpr Flavour k_qwen3_separate = [] {
  Flavour flavour = k_qwen3_debug;
  flavour.name = "debugmodel_non_fused_qkv";
  flavour.fuses_qkv = false;
  return flavour;
}();
constexpr Flavour k_qwen3_debug_moe = [] {
  Flavour flavour = with_experts(qwen3_moe("debugmodel_moe", 8, 256, 16, 8), 64, 8, 768);
  flavour.vocab = 2048;
  return flavour;
}();

constexpr std::array k_flavours = {
    // models/llama3/__init__.py:llama3_configs
    Flavour{"llama3", "debugmodel", Blocks::llama3, 6, 256, 16, 16, 16, 768, 2048},
    Flavour{"llama3", "1B", Blocks::llama3, 16, 2048, 32, 8, 64, 8192, k_llama_vocab, true},
    Flavour{"llama3", "3B", Blocks::llama3, 28, 3072, 24, 8, 128, 8192, k_llama_vocab, true},
    Flavour{"llama3", "8B", Blocks::llama3, 32, 4096, 32, 8, 128, 14336, k_llama_vocab},
    Flavour{"llama3", "70B", Blocks::llama3, 80, 8192, 64, 8, 128, 28672, k_llama_vocab},
    Flavour{"llama3", "405B", Blocks::llama3, 126, 16384, 128, 8, 128, 53248, k_llama_vocab},
    // models/qwen3/__init__.py:qwen3_configs
    k_qwen3_debug,
    k_qwen3_separate,
    Flavour{"qwen3", "0.6B", Blocks::qwen3, 28, 1024, 16, 8, 128, 3072, k_qwen_vocab, true},
    Flavour{"qwen3", "1.7B", Blocks::qwen3, 28, 2048, 16, 8, 128, 6144, k_qwen_vocab, true},
    Flavour{"qwen3", "4B", Blocks::qwen3, 36, 2560, 32, 8, 128, 9728, k_qwen_vocab, true},
    Flavour{"qwen3", "8B", Blocks::qwen3, 36, 4096, 32, 8, 128, 12288, k_qwen_vocab},
    Flavour{"qwen3", "14B", Blocks::qwen3, 40, 5120, 40, 8, 128, 17408, k_qwen_vocab},
    Flavour{"qwen3", "32B", Blocks::qwen3, 64, 5120, 64, 8, 128, 25600, k_qwen_vocab},
    k_qwen3_debug_moe,
    with_experts(qwen3_moe("30B-A3B", 48, 2048, 32, 4), 128, 8, 768),
    with_experts(qwen3_moe("235B-A22B", 94, 4096, 64, 4), 128, 8, 1536),
    // models/deepseek_v3/__init__.py:deepseekv3_configs; heads of 128 + 64
    with_leading(
        with_experts({"deepseek_v3", "debugmodel", Blocks::deepseek, 6, 256, 16, 16, 128, 1024, 2048}, 8, 3,
                     256),
        1, 2, 0),
    with_leading(with_experts({"deepseek_v3", "16B", Blocks::deepseek, 27, 2048, 16, 16, 128, 10944, 102'400},
                              64, 6, 1408),
                 1, 2, 0),
    with_leading(
        with_experts({"deepseek_v3", "236B", Blocks::deepseek, 60, 5120, 128, 128, 128, 12288, 102'400}, 160,
                     6, 1536),
        1, 2, 1536),
    with_leading(
        with_experts({"deepseek_v3", "671B", Blocks::deepseek, 61, 7168, 128, 128, 128, 18432, 129'280}, 256,
                     8, 2048),
        3, 1, 1536),
    // models/gpt_oss/__init__.py:gptoss_configs
    with_experts({"gpt_oss", "debugmodel", Blocks::gpt_oss, 4, 256, 64, 8, 64, 0, 2048}, 8, 4, 2880),
    with_experts({"gpt_oss", "20b", Blocks::gpt_oss, 24, 2880, 64, 8, 64, 0, k_oss_vocab}, 32, 4, 2880),
    with_experts({"gpt_oss", "120b", Blocks::gpt_oss, 36, 2880, 64, 8, 64, 0, k_oss_vocab}, 128, 4, 2880),
    // models/kimi_k2_7/__init__.py
    refused("kimi_k2_7", "debugmodel", k_vision),
    with_leading(with_experts({"kimi_k2_7", "moonlight-16B-A3B", Blocks::deepseek, 27, 2048, 16, 16, 128,
                               11264, k_kimi_vocab},
                              64, 6, 1408),
                 1, 2, 0),
    refused("kimi_k2_7", "Kimi-VL-A3B", k_vision),
    refused("kimi_k2_7", "Kimi-K2.5", k_vision),
    // models/muse_glimmer/__init__.py
    refused("muse_glimmer", "debugmodel", k_gate),
    refused("muse_glimmer", "30B", k_gate),
    refused("muse_glimmer", "debugmodel_mm", k_vision),
    refused("muse_glimmer", "30B_mm", k_vision),
    // models/qwen3_5/__init__.py
    refused("qwen3_5", "debugmodel", k_delta_net),
    refused("qwen3_5", "debugmodel_moe", k_delta_net),
    refused("qwen3_5", "0.8B", k_delta_net),
    refused("qwen3_5", "2B", k_delta_net),
    refused("qwen3_5", "4B", k_delta_net),
    refused("qwen3_5", "9B", k_delta_net),
    refused("qwen3_5", "27B", k_delta_net),
    refused("qwen3_5", "35B-A3B", k_delta_net),
    refused("qwen3_5", "122B-A10B", k_delta_net),
    refused("qwen3_5", "397B-A17B", k_delta_net),
};

/// What the debugging models have in common: few tokens, a line of log for each step.
constexpr Recipe debug(std::string_view module, std::string_view name, std::string_view flavour) {
  return {.module = module, .name = name, .flavour = flavour, .log_frequency = 1, .checkpoint_interval = 10};
}

constexpr Recipe of_qwen3(std::string_view name, std::string_view flavour, std::int64_t local_batch,
                          Recompute recompute) {
  return {.module = "qwen3",
          .name = name,
          .flavour = flavour,
          .local_batch = local_batch,
          .sequence = 4096,
          .recompute = recompute};
}

/// The recipe with changes that a designated initialiser cannot make.
template <typename Change>
constexpr Recipe changed(Recipe recipe, Change change) {
  change(recipe);
  return recipe;
}

constexpr Recipe refused_recipe(std::string_view module, std::string_view name, std::string_view flavour,
                                std::string_view part) {
  return {.module = module, .name = name, .flavour = flavour, .not_modelled = part};
}

constexpr auto k_interleaved = pytorch::PipelineSchedule::interleaved_1f1b;

constexpr Recipe k_llama3_debug = changed(debug("llama3", "llama3_debugmodel", "debugmodel"),
                                          [](Recipe& recipe) { recipe.schedule = k_interleaved; });
constexpr Recipe k_qwen3_moe_debug =
    changed(debug("qwen3", "qwen3_moe_debug", "debugmodel_moe"), [](Recipe& recipe) {
      recipe.local_batch = 4;
      recipe.sequence = 4096;
    });
constexpr Recipe k_deepseek_debug = debug("deepseek_v3", "deepseek_v3_debugmodel", "debugmodel");
constexpr Recipe k_deepseek_16b{.module = "deepseek_v3",
                                .name = "deepseek_v3_16b",
                                .flavour = "16B",
                                .local_batch = 4,
                                .sequence = 4096,
                                .checkpoint_interval = 10,
                                .ep = 8,
                                .schedule = k_interleaved,
                                .has_cuda_graphs = false,
                                .compiles_loss = true};
constexpr Recipe k_gpt_oss_debug = changed(debug("gpt_oss", "gpt_oss_debugmodel", "debugmodel"),
                                           [](Recipe& recipe) { recipe.recompute = Recompute::none; });
constexpr Recipe k_gpt_oss{.module = "gpt_oss",
                           .name = "gpt_oss_20b",
                           .flavour = "20b",
                           .local_batch = 1,
                           .sequence = 8192,
                           .recompute = Recompute::full};

constexpr Recipe renamed(Recipe recipe, std::string_view name) {
  recipe.name = name;
  return recipe;
}

constexpr Recipe with_hybrid(Recipe recipe, std::string_view name) {
  recipe.name = name;
  recipe.dispatcher = Dispatcher::hybridep;
  recipe.has_cuda_graphs = true;
  return recipe;
}

constexpr std::array k_recipes = {
    // models/llama3/config_registry.py
    k_llama3_debug,
    changed(renamed(k_llama3_debug, "llama3_debugmodel_ce_loss"),
            [](Recipe& recipe) { recipe.loss_chunks = 0; }),
    changed(renamed(k_llama3_debug, "llama3_debugmodel_varlen_attn"),
            [](Recipe& recipe) { recipe.has_cuda_graphs = false; }),
    debug("llama3", "sft_debugmodel", "debugmodel"),
    refused_recipe("llama3", "llama3_debugmodel_dist_gemm", "debugmodel",
                   "tensor parallelism fused into matrix products"),
    refused_recipe("llama3", "llama3_debugmodel_float8", "debugmodel", k_float8),
    refused_recipe("llama3", "llama3_debugmodel_nvfp4", "debugmodel", k_nvfp4),
    refused_recipe("llama3", "llama3_debugmodel_first_85_pct_layers_nvfp4", "debugmodel", k_nvfp4),
    refused_recipe("llama3", "llama3_debugmodel_float8_emulate_lora", "debugmodel", "LoRA"),
    Recipe{.module = "llama3", .name = "llama3_8b", .flavour = "8B", .local_batch = 1, .sequence = 8192},
    refused_recipe("llama3", "llama3_8b_first_85_pct_layers_nvfp4", "8B", k_nvfp4),
    refused_recipe("llama3", "llama3_8b_mxfp8", "8B", k_mxfp8),
    Recipe{.module = "llama3",
           .name = "llama3_70b",
           .flavour = "70B",
           .sequence = 8192,
           .recompute = Recompute::full,
           .tp = 8},
    Recipe{.module = "llama3",
           .name = "llama3_405b",
           .flavour = "405B",
           .local_batch = 2,
           .sequence = 8192,
           .recompute = Recompute::full,
           .tp = 8,
           .not_modelled = "Float8 linear layers and asynchronous tensor parallelism"},
    // models/qwen3/config_registry.py
    debug("qwen3", "qwen3_debugmodel", "debugmodel"),
    debug("qwen3", "qwen3_debugmodel_flex_flash", "debugmodel"),
    debug("qwen3", "qwen3_debugmodel_non_fused_qkv", "debugmodel_non_fused_qkv"),
    refused_recipe("qwen3", "qwen3_debugmodel_nvfp4", "debugmodel", k_nvfp4),
    refused_recipe("qwen3", "qwen3_debugmodel_first_85_pct_layers_nvfp4", "debugmodel", k_nvfp4),
    refused_recipe("qwen3", "qwen3_8b_first_85_pct_layers_nvfp4", "8B", k_nvfp4),
    k_qwen3_moe_debug,
    renamed(k_qwen3_moe_debug, "qwen3_debugmodel_moe_param_groups"),
    changed(renamed(k_qwen3_moe_debug, "qwen3_moe_deepep"),
            [](Recipe& recipe) {
              recipe.local_batch = 2;
              recipe.sequence = 512;
              recipe.checkpoint_interval = 1000;
              recipe.ep = 4;
              recipe.dispatcher = Dispatcher::deepep;
              recipe.has_cuda_graphs = false;
            }),
    changed(of_qwen3("qwen3_0_6b", "0.6B", 4, Recompute::selective),
            [](Recipe& recipe) { recipe.log_frequency = 1; }),
    changed(of_qwen3("qwen3_1_7b", "1.7B", 4, Recompute::selective),
            [](Recipe& recipe) { recipe.checkpoint_interval = 50; }),
    of_qwen3("qwen3_14b", "14B", 4, Recompute::full),
    of_qwen3("qwen3_32b", "32B", 2, Recompute::full),
    of_qwen3("qwen3_30b_a3b", "30B-A3B", 2, Recompute::full),
    refused_recipe("qwen3", "sft_qwen3_8b_math", "8B", k_loading),
    // models/deepseek_v3/config_registry.py
    k_deepseek_debug,
    refused_recipe("deepseek_v3", "deepseek_v3_debugmodel_mtp", "debugmodel", "multi-token prediction (MTP)"),
    refused_recipe("deepseek_v3", "deepseek_v3_debugmodel_mxfp8", "debugmodel", k_mxfp8),
    with_hybrid(k_deepseek_debug, "deepseek_v3_debugmodel_hybridep"),
    refused_recipe("deepseek_v3", "deepseek_v3_debugmodel_minimal_async_ep", "debugmodel", k_swiglu),
    k_deepseek_16b,
    with_hybrid(k_deepseek_16b, "deepseek_v3_16b_hybridep"),
    refused_recipe("deepseek_v3", "deepseek_v3_16b_minimal_async_ep", "16B", k_swiglu),
    Recipe{.module = "deepseek_v3",
           .name = "deepseek_v3_671b",
           .flavour = "671B",
           .local_batch = 4,
           .sequence = 4096,
           .ep = 2,
           .schedule = k_interleaved,
           .has_cuda_graphs = false,
           .compiles_loss = true},
    refused_recipe("deepseek_v3", "deepseek_v3_671b_float8", "671B", k_float8),
    // models/gpt_oss/config_registry.py
    k_gpt_oss_debug,
    renamed(k_gpt_oss_debug, "gpt_oss_debugmodel_flex"),
    k_gpt_oss,
    changed(renamed(k_gpt_oss, "gpt_oss_120b"), [](Recipe& recipe) { recipe.flavour = "120b"; }),
    // models/kimi_k2_7/config_registry.py
    refused_recipe("kimi_k2_7", "moonlight_16b_a3b", "moonlight-16B-A3B", k_muon),
    refused_recipe("kimi_k2_7", "kimi_k2_5_debugmodel", "debugmodel", k_vision),
    refused_recipe("kimi_k2_7", "kimi_vl_a3b", "Kimi-VL-A3B", k_vision),
    refused_recipe("kimi_k2_7", "kimi_k2_5", "Kimi-K2.5", k_vision),
    // models/muse_glimmer/config_registry.py
    refused_recipe("muse_glimmer", "muse_glimmer_debugmodel", "debugmodel", k_gate),
    refused_recipe("muse_glimmer", "muse_glimmer_30b", "30B", k_gate),
    refused_recipe("muse_glimmer", "muse_glimmer_debugmodel_mm", "debugmodel_mm", k_vision),
    refused_recipe("muse_glimmer", "muse_glimmer_30b_mm", "30B_mm", k_vision),
    // models/qwen3_5/config_registry.py
    refused_recipe("qwen3_5", "qwen35_debugmodel", "debugmodel", k_delta_net),
    refused_recipe("qwen3_5", "qwen35_debugmodel_varlen_attn", "debugmodel", k_delta_net),
    refused_recipe("qwen3_5", "qwen35_debugmodel_moe", "debugmodel_moe", k_delta_net),
    refused_recipe("qwen3_5", "qwen35_0_8b", "0.8B", k_delta_net),
    refused_recipe("qwen3_5", "qwen35_2b", "2B", k_delta_net),
    refused_recipe("qwen3_5", "qwen35_4b", "4B", k_delta_net),
    refused_recipe("qwen3_5", "qwen35_9b", "9B", k_delta_net),
    refused_recipe("qwen3_5", "qwen35_27b", "27B", k_delta_net),
    refused_recipe("qwen3_5", "qwen35_35b_a3b", "35B-A3B", k_delta_net),
    refused_recipe("qwen3_5", "qwen35_122b_a10b", "122B-A10B", k_delta_net),
    refused_recipe("qwen3_5", "qwen35_397b_a17b", "397B-A17B", k_delta_net),
    // models/flux/config_registry.py
    refused_recipe("flux", "flux_debugmodel", "flux-debug", k_images),
    refused_recipe("flux", "flux_dev", "flux-dev", k_images),
    refused_recipe("flux", "flux_schnell", "flux-schnell", k_images),
    refused_recipe("flux", "flux_dev_mxfp8", "flux-dev", k_images),
    refused_recipe("flux", "flux_schnell_mxfp8", "flux-schnell", k_images),
};

/// "there is no KIND 'NAME' …; did you mean …".
template <typename Entry>
tl::unexpected<Error> no_such(std::span<const Entry> entries, std::string_view kind, std::string_view module,
                              std::string_view name) {
  std::vector<std::string_view> modules;
  std::vector<std::string_view> names;
  for (const Entry& entry : entries) {
    if (std::find(modules.begin(), modules.end(), entry.module) == modules.end()) {
      modules.push_back(entry.module);
    }
    if (entry.module == module) {
      names.push_back(entry.name);
    }
  }
  if (names.empty()) {
    return failure(fmt::format("torchtitan 0.3.0 has no module '{}'; choose from {}", module.substr(0, 40),
                               fmt::join(modules, ", ")));
  }
  const std::string meant = nearest(name, names);
  return failure(fmt::format("the module {} has no {} '{}'; {}choose from {}", module, kind,
                             name.substr(0, 60), meant.empty() ? "" : fmt::format("did you mean {}? ", meant),
                             fmt::join(names, ", ")));
}

template <typename Entry>
const Entry* found(std::span<const Entry> entries, std::string_view module, std::string_view name) {
  const auto entry = std::find_if(entries.begin(), entries.end(),
                                  [&](const Entry& one) { return one.module == module && one.name == name; });
  return entry == entries.end() ? nullptr : &*entry;
}

bool has_same_shape(const ModelConfig& model, const ModelConfig& other) {
  const auto shape = [](const ModelConfig& one) {
    return std::array{one.layers,
                      one.hidden,
                      one.heads,
                      one.kv_heads,
                      one.head_dim,
                      one.raw_vocab,
                      one.experts,
                      one.top_k,
                      one.moe_hidden,
                      one.dense_layers,
                      one.shared_experts,
                      one.latent.query_rank,
                      one.latent.kv_rank,
                      one.latent.nope_dim,
                      one.latent.rope_dim,
                      one.latent.value_dim,
                      one.experts > 0 && one.dense_layers == 0 ? 0 : one.ffn_hidden};
  };
  return shape(model) == shape(other) && model.tied_embeddings == other.tied_embeddings &&
         model.gated_mlp == other.gated_mlp && model.linear_bias == other.linear_bias &&
         model.qkv_bias == other.qkv_bias && model.norm_bias == other.norm_bias &&
         model.qk_norm == other.qk_norm && model.attention_sinks == other.attention_sinks;
}

}  // namespace

std::span<const Flavour> flavours() { return k_flavours; }
std::span<const Recipe> recipes() { return k_recipes; }

Result<const Flavour*> flavour_named(std::string_view module, std::string_view name) {
  const Flavour* const flavour = found(flavours(), module, name);
  return flavour != nullptr ? Result<const Flavour*>(flavour) : no_such(flavours(), "flavor", module, name);
}

Result<const Recipe*> recipe_named(std::string_view module, std::string_view name) {
  const Recipe* const recipe = found(recipes(), module, name);
  return recipe != nullptr ? Result<const Recipe*>(recipe) : no_such(recipes(), "config", module, name);
}

const Recipe* recipe_of(const Flavour& flavour) {
  const Recipe* first = nullptr;
  for (const Recipe& recipe : recipes()) {
    const bool is_of_flavour = recipe.module == flavour.module && recipe.flavour == flavour.name;
    const bool is_for_pretraining = !recipe.name.starts_with("sft_");
    if (is_of_flavour && is_for_pretraining && recipe.not_modelled.empty()) {
      return &recipe;
    }
    const bool has_settings = recipe.local_batch != Recipe{}.local_batch;
    first = first == nullptr && is_of_flavour && is_for_pretraining && has_settings ? &recipe : first;
  }
  return first;
}

const Flavour* flavour_like(const ModelConfig& model) {
  const auto* const flavour = std::find_if(k_flavours.begin(), k_flavours.end(), [&](const Flavour& one) {
    return one.not_modelled.empty() && has_same_shape(model, model_of(one, model.sequence));
  });
  return flavour == k_flavours.end() ? nullptr : flavour;
}

void set_blocks(ModelConfig& model, Blocks blocks) {
  const bool is_gpt_oss = blocks == Blocks::gpt_oss;
  model.family = Family::llama;
  model.positions = Positions::rotary;
  model.gated_mlp = true;
  model.norm_bias = false;
  model.linear_bias = model.qkv_bias = model.router_bias = model.attention_sinks = is_gpt_oss;
  model.qk_norm = blocks == Blocks::qwen3;
}

ModelConfig model_of(const Flavour& flavour, std::int64_t sequence) {
  ModelConfig model;
  set_blocks(model, flavour.blocks);
  model.name = fmt::format("{} {}", flavour.module, flavour.name);
  model.layers = flavour.layers;
  model.hidden = flavour.hidden;
  model.heads = flavour.heads;
  model.kv_heads = flavour.kv_heads;
  model.head_dim = flavour.head_dim;
  model.ffn_hidden = flavour.ffn_hidden > 0 ? flavour.ffn_hidden : flavour.moe_hidden;
  model.vocab = model.raw_vocab = flavour.vocab;
  model.sequence = model.max_positions = sequence;
  model.tied_embeddings = flavour.is_tied;
  model.experts = flavour.experts;
  model.top_k = flavour.top_k;
  model.moe_hidden = flavour.moe_hidden;
  model.dense_layers = flavour.dense_layers;
  model.shared_experts = flavour.shared_experts;
  if (flavour.blocks == Blocks::deepseek) {
    model.latent = {flavour.query_rank, 512, 128, 64, 128};  // the same in all flavours
  }
  return model;
}

}  // namespace commlens::torchtitan
