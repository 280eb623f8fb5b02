#include "commlens/frameworks/neox/reader.hpp"

#include <cmath>
#include <filesystem>
#include <string_view>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "commlens/config/map_reader.hpp"
#include "commlens/frameworks/deepspeed/options.hpp"
#include "commlens/frameworks/deepspeed/reader.hpp"
#include "commlens/frameworks/neox/behaviour.hpp"
#include "commlens/frameworks/neox/framework.hpp"
#include "commlens/frameworks/neox/options.hpp"
#include "commlens/frameworks/recipe_reader.hpp"
#include "commlens/frameworks/training_keys.hpp"

namespace commlens {
namespace {

// Arguments that can add or change messages and have no rules: skipped, unless switched off.
constexpr std::string_view k_skipped_neox_keys =
    "bf16_lm_cross_entropy coord_check deepscale log_gradient_noise_scale";

constexpr std::int64_t k_gpt2_vocab = 50257;      // GPT2BPETokenizer
constexpr std::int64_t k_neox_20b_vocab = 50277;  // 20B_tokenizer.json
constexpr std::int64_t k_characters = 512;        // CharLevelTokenizer
constexpr std::int64_t k_most_pipe_stages = 1'000'000'000;

void read_norm_and_positions(MapReader& arguments, ModelConfig& model) {
  arguments.choose("norm", {{"layernorm", true}, {"rmsnorm", false}}, model.norm_bias);
  bool norm_has_bias = model.norm_bias;
  arguments.read("use_bias_in_norms", norm_has_bias);
  model.norm_bias = model.norm_bias && norm_has_bias;
  arguments.choose("pos_emb",
                   {{"learned", Positions::learned},
                    {"rotary", Positions::rotary},
                    {"sinusoidal", Positions::sinusoidal},
                    {"alibi", Positions::alibi},
                    {"none", Positions::none}},
                   model.positions);
  arguments.require("max_position_embeddings", model.max_positions);
  if (!arguments.failed() && model.max_positions < model.sequence) {
    arguments.fail("max_position_embeddings",
                   fmt::format("is {}, less than seq_length {}; GPT-NeoX needs at least that",
                               model.max_positions, model.sequence));
  }
  std::int64_t offset = 0;
  arguments.read("opt_pos_emb_offset", offset, 0);
  if (offset > 0) {
    arguments.fail("opt_pos_emb_offset", "is not supported; leave it out");
  }
}

void read_neox_sizes(MapReader& arguments, ModelConfig& model) {
  arguments.require("num_layers", model.layers);
  arguments.require("hidden_size", model.hidden);
  arguments.require("num_attention_heads", model.heads);
  arguments.require("seq_length", model.sequence);
  arguments.read("feedforward_size", model.ffn_hidden);
  arguments.read("intermediate_size", model.ffn_hidden);
  bool untied = false;
  arguments.read("no_weight_tying", untied);
  model.tied_embeddings = !untied;
  arguments.read("gpt_j_residual", model.parallel_residual);
  arguments.read("rotary_pct", model.rotary_fraction);
  if (!(model.rotary_fraction >= 0 && model.rotary_fraction <= 1)) {
    arguments.fail("rotary_pct", "is not between 0 and 1");
  }
}

/// The tokenizer decides the vocabulary, which is then padded for tensor parallelism.
void read_vocab(MapReader& arguments, ModelConfig& model, std::vector<std::string>& warnings) {
  std::string tokenizer = "GPT2BPETokenizer";
  std::string vocab_file;
  arguments.read("tokenizer_type", tokenizer);
  arguments.read("vocab_file", vocab_file);
  model.vocab_multiple = 128;
  arguments.read("make_vocab_size_divisible_by", model.vocab_multiple);
  std::int64_t padded = 0;
  arguments.read("padded_vocab_size", padded);
  model.raw_vocab = k_gpt2_vocab;
  if (padded > 0) {
    model.raw_vocab = padded;
    model.vocab = padded;
    model.vocab_is_padded = true;
  } else if (tokenizer == "CharLevelTokenizer") {
    model.raw_vocab = k_characters;
  } else if (vocab_file.ends_with("20B_tokenizer.json")) {
    model.raw_vocab = k_neox_20b_vocab;
  } else if (tokenizer != "GPT2BPETokenizer" && tokenizer != "HFGPT2Tokenizer") {
    model.vocab_is_assumed = true;
    warnings.push_back(fmt::format("{}: the vocabulary of '{}' is not known: GPT-2's {} is used; set --vocab",
                                   arguments.where("tokenizer_type"), shown_text(tokenizer), k_gpt2_vocab));
  }
}

bool mentions(const ConfigNode& node, std::string_view word) {
  if (node.kind == ConfigNode::Kind::scalar) {
    return node.text == word;
  }
  for (const ConfigNode& item : node.items) {
    if (mentions(item, word)) {
      return true;
    }
  }
  return false;
}

void refuse_other_values(MapReader& arguments, std::string_view key, std::string_view supported) {
  std::string value(supported);
  arguments.read(key, value);
  if (value != supported) {
    arguments.fail(key, fmt::format("is '{}'; only '{}' has rules here", shown_text(value), supported));
  }
}

void refuse_other_numbers(MapReader& arguments, std::string_view key, std::int64_t supported) {
  std::int64_t value = supported;
  arguments.read(key, value, 0);
  if (value != supported) {
    arguments.fail(key, fmt::format("is {}; only {} has rules here", value, supported));
  }
}

/// Arguments that change the parameters or the messages in a way no rule was measured for.
void refuse_what_has_no_rules(MapReader& arguments, const ModelConfig& model) {
  refuse_other_values(arguments, "model_arch", "gpt2");
  refuse_other_values(arguments, "mlp_type", "regular");
  refuse_other_values(arguments, "train_impl", "normal");
  refuse_other_values(arguments, "output_layer_parallelism", "column");
  refuse_other_numbers(arguments, "moe_num_experts", 1);
  refuse_other_numbers(arguments, "moe_expert_parallel_size", 1);
  refuse_other_numbers(arguments, "num_kv_heads", model.heads);
  refuse_other_numbers(arguments, "context_parallel_size", 1);
  for (const std::string_view key : {"gpt_j_tied", "use_qk_layernorm", "te_columnparallel", "te_rowparallel",
                                     "te_layernorm_mlp", "te_mha", "te_fp8_mha", "use_tutel"}) {
    arguments.refuse_true(key, "has no rules here; set it to false");
  }
  for (const std::string_view key : {"use_bias_in_attn_linear", "use_bias_in_mlp"}) {
    bool has_bias = true;
    arguments.read(key, has_bias);
    if (!has_bias) {
      arguments.fail(key, "is false, which has no rules here; set it to true");
    }
  }
  arguments.refuse("num_unique_layers", "shares layers, which has no rules here; leave it out");
  arguments.refuse("num_encoder_layers", "belongs to T5 models, which have no rules here");
  std::string activation = "gelu";
  arguments.read("activation", activation);
  if (activation == "geglu" || activation == "swiglu" || activation == "reglu" || activation == "bilinear") {
    arguments.fail("activation", fmt::format("is '{}', whose gated MLP has no rules here", activation));
  }
  if (const ConfigNode* attention = arguments.node("attention_config")) {
    for (const std::string_view kind : {"gmlp", "amlp", "mamba", "rwkv"}) {
      if (mentions(*attention, kind)) {
        arguments.fail("attention_config", fmt::format("has '{}' layers, which have no rules here", kind));
      }
    }
  }
  const ConfigNode* tuning = arguments.map("soft_prompt_tuning");
  const ConfigNode* enabled = tuning == nullptr ? nullptr : find(*tuning, "enabled");
  if (tuning != nullptr && (enabled == nullptr || as_boolean(*enabled).value_or(true))) {
    arguments.fail("soft_prompt_tuning", "has no rules here; switch it off");
  }
}

void read_neox_layout(MapReader& arguments, Job& job) {
  std::int64_t stages = 1;
  arguments.read("pipe_parallel_size", stages, 0);
  if (stages > k_most_pipe_stages) {
    arguments.fail("pipe_parallel_size", "is more than any machine has ranks");
  }
  job.layout.pp = stages == 0 ? 1 : stages;  // 0 switches the pipeline off
  arguments.read("model_parallel_size", job.layout.tp);
  neox::read_version_keys(arguments, job);
}

void read_neox_training(MapReader& arguments, Job& job) {
  bool checkpoints = false;
  arguments.read("checkpoint_activations", checkpoints);
  arguments.read("checkpoint_num_layers", neox::options(job).checkpoint_num_layers);
  set_recompute(job, checkpoints ? Recompute::full : Recompute::none);
  if (const ConfigNode* attention = arguments.node("attention_config")) {
    // "flash" is one of its names, the others are sparse or plain attention (neox_arguments/neox_args.py).
    job.train.attention = mentions(*attention, "flash") ? Attention::flash : Attention::eager;
  }
  bool partitions = false;
  arguments.read("partition_activations", partitions);
  job.train.partition_activations = partitions && checkpoints;
  arguments.read("fp32_allreduce", neox::options(job).fp32_allreduce);
  arguments.read("fp16_lm_cross_entropy", neox::options(job).fp16_lm_cross_entropy);
  arguments.read("pipe_partition_method", neox::options(job).partition_method);
  double weight_decay = 0.01;
  read_within(arguments, "weight_decay", {}, weight_decay);
  job.recipe.weight_decay = job.recipe.weight_decay.value_or(weight_decay);
  deepspeed::options(job).weight_decay_groups =
      weight_decay != 0.0;                        // megatron/model/utils.py: one group without decay
  deepspeed::options(job).attention_mask = true;  // training.py:775 set_has_attention_mask(True)
  DType precision = job.train.dtype;
  arguments.choose(
      "precision",
      {{"bfloat16", DType::bf16}, {"bf16", DType::bf16}, {"fp16", DType::fp16}, {"fp32", DType::fp32}},
      precision);
  if (job.train.dtype != DType::fp32 && precision != job.train.dtype) {
    arguments.fail("precision", fmt::format("is {}, the fp16 or bf16 section has {}", name_of(precision),
                                            name_of(job.train.dtype)));
  }
  job.train.dtype = precision;
}

/// What decides the numbers of a layer.
void read_neox_layers(MapReader& arguments, Job& job) {
  ModelConfig& model = job.model;
  read_within(arguments, "layernorm_epsilon", {}, model.norm_epsilon);
  read_within(arguments, "rotary_emb_base", {1, 1e12}, model.rotary_base);
  read_activation(arguments, "activation", model.activation, job.recipe);
  bool is_fused = false;
  bool is_exact = false;
  arguments.read("bias_gelu_fusion", is_fused);
  arguments.read("onnx_safe", is_exact);
  if (model.activation == Activation::gelu && is_fused && !is_exact) {
    model.activation = Activation::gelu_tanh;  // megatron/model/activations.py bias_gelu_impl
  }
  read_init_method(arguments, "init_method", model.initialisation.method, job.recipe);
  read_init_method(arguments, "output_layer_init_method", model.initialisation.output_method, job.recipe);
  read_within(arguments, "init_method_std", {}, model.initialisation.deviation);
  const ConfigNode* attention = arguments.node("attention_config");
  for (const std::string_view kind :
       {"local", "sparse_fixed", "sparse_variable", "bigbird", "bslongformer"}) {
    if (attention != nullptr && mentions(*attention, kind)) {
      job.recipe.not_honoured.push_back(not_honoured_text("attention_config", kind, "full attention"));
    }
  }
  std::int64_t window = 0;
  arguments.read("sliding_window_width", window, 0);
  if (window > 0) {
    job.recipe.attention_window = {"sliding_window_width", window};
  }
}

/// The optimizer and its schedule, with GPT-NeoX's defaults for what is left open.
void read_neox_recipe(MapReader& arguments, TrainingRecipe& recipe) {
  recipe.learning_rate = recipe.learning_rate.value_or(1e-3);  // OPT_PARAMS_DEFAULT
  recipe.beta1 = recipe.beta1.value_or(0.9);
  recipe.beta2 = recipe.beta2.value_or(0.999);
  recipe.min_learning_rate = 0;
  recipe.warmup_fraction = 0.01;
  recipe.decay = DecayStyle::linear;
  recipe.warms_up_from_zero = recipe.linear_to_zero = true;
  read_within(arguments, "min_lr", {}, recipe.min_learning_rate);
  read_within(arguments, "warmup", {0, 1}, recipe.warmup_fraction);
  read_decay(arguments, "lr_decay_style", recipe);
  std::int64_t iterations = 0;
  arguments.read("train_iters", iterations);
  double fraction = 1;
  read_within(arguments, "lr_decay_fraction", {0, 1e6}, fraction);
  const auto decay = static_cast<std::int64_t>(std::floor(static_cast<double>(iterations) * fraction));
  read_decay_end_and_seed(arguments, decay, recipe);
}

/// Splits merged arguments into DeepSpeed's settings, the extra ones included, and GPT-NeoX's own.
Result<void> split(const ConfigNode& arguments, ConfigNode& deepspeed, ConfigNode& own) {
  deepspeed.kind = own.kind = ConfigNode::Kind::map;
  deepspeed.file = own.file = arguments.file;
  deepspeed.line = own.line = arguments.line;
  std::unordered_map<std::string, std::string> known;
  for (std::size_t index = 0; index < arguments.keys.size(); ++index) {
    const std::string& key = arguments.keys[index];
    append(is_deepspeed_key(key) ? deepspeed : own, key, arguments.items[index]);
    known[key] = arguments.items[index].where();
  }
  const ConfigNode* extra = find(arguments, "deepspeed_extra_args");
  if (extra == nullptr || extra->kind == ConfigNode::Kind::null) {
    return {};
  }
  if (extra->kind != ConfigNode::Kind::map) {
    return failure(fmt::format("{}: 'deepspeed_extra_args' must hold keys with values", extra->where()));
  }
  for (std::size_t index = 0; index < extra->keys.size(); ++index) {
    const auto already = known.find(extra->keys[index]);
    if (already != known.end()) {
      return failure(fmt::format("{}: '{}' is at {} too; keep one", extra->items[index].where(),
                                 shown_text(extra->keys[index]), already->second));
    }
    append(deepspeed, extra->keys[index], extra->items[index]);
  }
  return {};
}

std::string neox_model_name(const ConfigNode& arguments) {
  const ConfigNode* layers = find(arguments, "num_layers");
  return layers == nullptr ? "" : std::filesystem::path(layers->file).stem().string();
}

/// Keys that only GPT-NeoX has outweigh DeepSpeed keys beside them; a yml of DeepSpeed keys alone is one of
/// its files, and so is an empty one.
bool is_neox_file(const ConfigFile& file) {
  const auto is_own = [](std::string_view key) { return is_neox_key(key) && !is_deepspeed_key(key); };
  return file.has("num_layers") ||
         (file.is_yaml() && (file.keys.empty() || file.has_any(is_own) || file.has_any(is_deepspeed_key)));
}

}  // namespace

bool is_neox_key(std::string_view key) { return is_known_key(neox::training_keys(), key); }

Result<ConfigNode> merged_neox(const std::vector<ConfigNode>& files) {
  ConfigNode all;
  all.kind = ConfigNode::Kind::map;
  all.line = 1;
  std::unordered_map<std::string, std::size_t> known;
  for (ConfigNode file : files) {
    if (file.kind != ConfigNode::Kind::map) {
      return failure(fmt::format("{}: keys with values are expected here", file.where()));
    }
    use_underscores(file);
    all.file = all.file.empty() ? file.file : all.file;
    for (std::size_t index = 0; index < file.keys.size(); ++index) {
      const ConfigNode* already = find(all, file.keys[index]);
      if (already != nullptr && already->file != file.file) {
        return failure(fmt::format("{}: '{}' is at {} too; GPT-NeoX takes a key from one file only",
                                   file.items[index].where(), shown_text(file.keys[index]),
                                   already->where()));
      }
      known[file.keys[index]] = all.items.size();
      append(all, file.keys[index], std::move(file.items[index]));
    }
  }
  return all;
}

Result<Job> job_from_neox(const ConfigNode& arguments, std::int64_t padded_vocab,
                          const std::string& version) {
  ConfigNode deepspeed;
  ConfigNode own;
  if (const Result<void> ok = split(arguments, deepspeed, own); !ok) {
    return tl::unexpected(ok.error());
  }
  Job job;
  job.framework = neox::k_name;
  job.framework_version = version;
  job.train.gradient_clipping = 1.0;  // NeoXArgsDeepspeedConfig.gradient_clipping
  if (const Result<void> ok = read_deepspeed(deepspeed, job); !ok) {
    return tl::unexpected(ok.error());
  }
  ModelConfig& model = job.model;
  model.name = neox_model_name(arguments);
  model.positions = Positions::learned;
  MapReader reader(own, {job.warnings, job.unmodelled});
  reader.node("deepspeed_extra_args");
  read_neox_sizes(reader, model);
  deepspeed::settle_width_sizes(job);
  read_norm_and_positions(reader, model);
  read_vocab(reader, model, job.warnings);
  read_neox_layout(reader, job);
  read_neox_training(reader, job);
  read_neox_layers(reader, job);
  read_neox_recipe(reader, job.recipe);
  refuse_what_has_no_rules(reader, model);
  reader.skip_unless_off(k_skipped_neox_keys);
  accept_known_keys(reader, own, neox::training_keys(), job.recipe);
  if (const Result<void> ok = reader.finish(); !ok) {
    return tl::unexpected(ok.error());
  }
  if (job.framework_version.empty()) {
    job.framework_version = neox::k_default_version;
  }
  if (padded_vocab > 0) {
    model.vocab = model.raw_vocab = padded_vocab;
    model.vocab_is_padded = true;
    model.vocab_is_assumed = false;
  }
  return job;
}

void neox::read_case_options(MapReader& reader, Job& job) {
  reader.read("pipe_partition_method", options(job).partition_method);
}

ConfigReader neox::reader() {
  return {.name = "a GPT-NeoX yml",
          .together = "GPT-NeoX yml files",
          .framework = k_name,
          .recognises = is_neox_file,
          .read =
              [](const std::vector<ConfigNode>& files) {
                const Result<ConfigNode> all = merged_neox(files);
                return all ? job_from_neox(*all, 0, "") : tl::unexpected(all.error());
              },
          .additions = Additions::merged,
          .preset_names = preset_names(),
          .preset = preset};
}

}  // namespace commlens
