#include "commlens/frameworks/megatron/reader.hpp"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "commlens/config/map_reader.hpp"
#include "commlens/config/top_level_keys.hpp"
#include "commlens/frameworks/megatron/core_reader.hpp"
#include "commlens/frameworks/megatron/options.hpp"
#include "commlens/frameworks/recipe_reader.hpp"
#include "commlens/frameworks/training_keys.hpp"

namespace commlens {
namespace {

// Arguments of Megatron-LM alone, by which a file is recognised.
constexpr std::string_view k_own_keys =
    "accumulate_allreduce_grads_in_fp32 expert_model_parallel_size global_batch_size micro_batch_size "
    "pipeline_model_parallel_size position_embedding_type tensor_model_parallel_size "
    "untie_embeddings_and_output_weights use_distributed_optimizer";

// Arguments that can add or change messages and have no rules: skipped, unless switched off. Calls of the
// training script (log_params_norm, exit_signal_handler and so on) are among them.
constexpr std::string_view k_skipped_arguments =
    "check_weight_hash_across_dp_replicas_interval fp16_lm_cross_entropy fp32_residual_connection loss_scale "
    "retro_add_retriever spec use_checkpoint_args use_legacy_models vocab_extra_ids yaml_cfg";

constexpr std::string_view k_unsupported_switches =
    "defer_embedding_wgrad_compute fp8_param_gather moe_extended_tp standalone_embedding_stage "
    "use_ring_exchange_p2p";

constexpr std::string_view k_unsupported_values =
    "encoder_pipeline_model_parallel_size encoder_tensor_model_parallel_size fp8_format "
    "pipeline_model_parallel_split_rank rampup_batch_size";

constexpr double k_largest_beta = 1 - 1e-9;

void read_megatron_sizes(MapReader& arguments, ModelConfig& model) {
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
  arguments.read("swiglu", model.gated_mlp);
  arguments.read("ffn_hidden_size", model.ffn_hidden);
  if (model.ffn_hidden == 0 && model.gated_mlp) {
    // arguments.py: two thirds of 4h, rounded down to a multiple of 64
    model.ffn_hidden = static_cast<std::int64_t>(static_cast<double>(4 * model.hidden) * 2 / 3) / 64 * 64;
  }
  model.family = model.gated_mlp ? Family::llama : Family::gpt;
  bool no_bias = false;
  arguments.read("disable_bias_linear", no_bias);
  model.linear_bias = !no_bias;
  model.qkv_bias = !no_bias;
  arguments.read("add_qkv_bias", model.qkv_bias);
  arguments.choose("normalization", {{"LayerNorm", true}, {"RMSNorm", false}}, model.norm_bias);
  arguments.read("num_experts", model.experts);
  model.top_k = model.experts > 0 ? 2 : 0;
  std::int64_t top_k = model.top_k;
  arguments.read("moe_router_topk", top_k);
  model.top_k = model.experts > 0 ? top_k : 0;
}

void read_embeddings(MapReader& arguments, ModelConfig& model, std::int64_t padded_vocab) {
  model.positions = Positions::learned;
  arguments.choose(
      "position_embedding_type",
      {{"learned_absolute", Positions::learned}, {"rope", Positions::rotary}, {"none", Positions::none}},
      model.positions);
  bool rotary = false;
  arguments.read("use_rotary_position_embeddings", rotary);
  model.positions = rotary ? Positions::rotary : model.positions;
  bool untied = false;
  arguments.read("untie_embeddings_and_output_weights", untied);
  model.tied_embeddings = !untied;
  model.vocab_multiple = 128;
  arguments.read("make_vocab_size_divisible_by", model.vocab_multiple);
  model.raw_vocab = 50257;  // GPT2BPETokenizer
  arguments.read("vocab_size", model.raw_vocab);
  std::string tokenizer = "GPT2BPETokenizer";
  arguments.read("tokenizer_type", tokenizer);
  model.vocab_is_padded = padded_vocab > 0;
  model.vocab_is_assumed =
      padded_vocab == 0 && tokenizer != "GPT2BPETokenizer" && !arguments.has("vocab_size");
  if (padded_vocab > 0) {
    model.raw_vocab = model.vocab = padded_vocab;
  }
}

void read_megatron_layout(MapReader& arguments, Job& job) {
  ParallelLayout& layout = job.layout;
  arguments.read("tensor_model_parallel_size", layout.tp);
  arguments.read("pipeline_model_parallel_size", layout.pp);
  arguments.read("context_parallel_size", layout.cp);
  arguments.read("expert_model_parallel_size", layout.ep);
  arguments.read("sequence_parallel", layout.sequence_parallel);
  bool has_data_slowest = false;  // megatron/training/initialize.py
  arguments.read("use_tp_pp_dp_mapping", has_data_slowest);
  if (has_data_slowest) {
    layout.order = "tp-cp-ep-pp-dp";
  }
  std::int64_t chunk = 0;
  arguments.read("num_layers_per_virtual_pipeline_stage", chunk);
  if (arguments.failed() || chunk == 0) {
    return;
  }
  const std::int64_t layers = job.model.layers;
  const std::int64_t per_stage = layers / layout.pp;
  if (layers % layout.pp != 0 || per_stage % chunk != 0 || per_stage == 0) {
    arguments.fail("num_layers_per_virtual_pipeline_stage",
                   fmt::format("is {}, which does not divide the {} layers of {} pipeline stages", chunk,
                               layers, layout.pp));
    return;
  }
  layout.virtual_stages = per_stage / chunk;
  job.train.schedule = layout.virtual_stages > 1 ? Schedule::interleaved : Schedule::one_f_one_b;
}

void read_megatron_precision(MapReader& arguments, Job& job) {
  bool fp16 = false;
  bool bf16 = false;
  arguments.read("fp16", fp16);
  arguments.read("bf16", bf16);
  if (fp16 && bf16) {
    arguments.fail("fp16", "and bf16 are both on; leave one out");
  }
  if (fp16) {
    job.train.dtype = DType::fp16;
  } else if (bf16) {
    job.train.dtype = DType::bf16;
  }
  arguments.read("accumulate_allreduce_grads_in_fp32", megatron::options(job).gradients_in_fp32);
}

void read_megatron_training(MapReader& arguments, Job& job) {
  arguments.read("micro_batch_size", job.train.micro_batch);
  job.train.micro_batches = 1;  // without a global batch Megatron takes one micro-batch
  arguments.read("global_batch_size", job.global_batch);
  if (job.global_batch > 0) {
    job.train.micro_batches = 0;
  }
  job.train.gradient_clipping = 1.0;
  arguments.read("clip_grad", job.train.gradient_clipping);
  bool distributed_optimizer = false;
  arguments.read("use_distributed_optimizer", distributed_optimizer);
  job.train.zero_stage = distributed_optimizer ? 1 : 0;
  arguments.read("overlap_grad_reduce", megatron::options(job).overlap_grad_reduce);
  arguments.read("variable_seq_lengths", megatron::options(job).variable_seq_lengths);
  arguments.choose<std::string>("moe_token_dispatcher_type",
                                {{"allgather", "allgather"}, {"alltoall", "alltoall"}, {"flex", "flex"}},
                                megatron::options(job).moe_dispatcher);
}

void read_recompute(MapReader& arguments, Job& job) {
  bool selective = false;
  arguments.read("recompute_activations", selective);
  Recompute recompute = selective ? Recompute::selective : Recompute::none;
  arguments.choose("recompute_granularity", {{"full", Recompute::full}, {"selective", Recompute::selective}},
                   recompute);
  set_recompute(job, recompute);
  arguments.choose<std::string>("recompute_method", {{"uniform", "uniform"}, {"block", "block"}},
                                megatron::options(job).recompute_method);
  arguments.read("recompute_num_layers", megatron::options(job).recompute_num_layers);
  arguments.read("distribute_saved_activations", job.train.partition_activations);
}

/// The layers of Transformer Engine, the default, choose a fused kernel; the local ones only if the arguments
/// ask for it. Source: Megatron-LM core_v0.7.0 megatron/training/arguments.py,
/// core/transformer/dot_product_attention.py.
void read_megatron_attention(MapReader& arguments, TrainConfig& train) {
  bool is_flash = false;
  std::string layers = "transformer_engine";
  arguments.read("use_flash_attn", is_flash);
  arguments.choose<std::string>("transformer_impl",
                                {{"local", "local"}, {"transformer_engine", "transformer_engine"}}, layers);
  train.attention = is_flash || layers != "local" ? Attention::flash : Attention::eager;
}

/// What decides the numbers of a layer.
void read_megatron_layers(MapReader& arguments, Job& job) {
  ModelConfig& model = job.model;
  read_within(arguments, "layernorm_epsilon", {}, model.norm_epsilon);
  read_within(arguments, "norm_epsilon", {}, model.norm_epsilon);
  read_within(arguments, "rotary_percent", {0, 1}, model.rotary_fraction);
  read_within(arguments, "rotary_base", {1, 1e12}, model.rotary_base);
  read_within(arguments, "init_method_std", {}, model.initialisation.deviation);
  bool xavier = false;
  arguments.read("init_method_xavier_uniform", xavier);
  model.initialisation.method = xavier ? InitMethod::xavier_uniform : InitMethod::normal;
  bool is_not_fused = false;
  bool is_exact = false;
  bool is_tanh = false;
  arguments.read("no_bias_gelu_fusion", is_not_fused);
  arguments.read("onnx_safe", is_exact);
  arguments.read("openai_gelu", is_tanh);
  // The fused kernel is the approximation; without biases there is none.
  const bool is_fused = !is_not_fused && !is_exact && model.linear_bias;
  model.activation = is_tanh || is_fused ? Activation::gelu_tanh : Activation::gelu;
  for (const std::string_view key : {"attention_dropout", "hidden_dropout"}) {
    if (!arguments.has(key)) {
      job.recipe.not_honoured.push_back(not_honoured_text(key, "0.1, the default", "no dropout"));
    }
  }
}

/// fp16: DynamicGradScaler of megatron/core/optimizer/grad_scaler.py, which works as DeepSpeed's.
void read_megatron_scaling(MapReader& arguments, LossScaling& scaling) {
  constexpr double largest = 1e30;
  scaling.initial = 4294967296.0;
  read_within(arguments, "loss_scale", {0, largest}, scaling.fixed);
  read_within(arguments, "initial_loss_scale", {0, largest}, scaling.initial);
  read_within(arguments, "min_loss_scale", {0, largest}, scaling.minimum);
  arguments.read("loss_scale_window", scaling.window);
  arguments.read("hysteresis", scaling.hysteresis);
}

/// The optimizer and its schedule, with Megatron's defaults for what is left open; only the rate has none.
void read_megatron_recipe(MapReader& arguments, TrainingRecipe& recipe) {
  recipe.beta1 = 0.9;
  recipe.beta2 = 0.999;
  recipe.weight_decay = 0.01;
  recipe.min_learning_rate = 0;
  recipe.decay = DecayStyle::linear;
  recipe.warms_up_from_zero = true;
  std::string optimizer;
  arguments.read("optimizer", optimizer);
  note_other_optimizer("optimizer", optimizer, recipe);
  read_within(arguments, "lr", {}, recipe.learning_rate);
  read_within(arguments, "min_lr", {}, recipe.min_learning_rate);
  read_within(arguments, "adam_beta1", {0, k_largest_beta}, recipe.beta1);
  read_within(arguments, "adam_beta2", {0, k_largest_beta}, recipe.beta2);
  read_within(arguments, "adam_eps", {}, recipe.epsilon);
  read_within(arguments, "weight_decay", {}, recipe.weight_decay);
  read_within(arguments, "lr_warmup_iters", {0, 1e9}, recipe.warmup);
  read_within(arguments, "lr_warmup_fraction", {0, 1}, recipe.warmup_fraction);
  read_decay(arguments, "lr_decay_style", recipe);
  std::int64_t decay = 0;
  arguments.read("train_iters", decay);
  read_decay_end_and_seed(arguments, decay, recipe);
}

template <typename Use>
void for_each_word(std::string_view words, Use use) {
  while (!words.empty()) {
    const std::size_t end = std::min(words.find(' '), words.size());
    use(words.substr(0, end));
    words.remove_prefix(std::min(end + 1, words.size()));
  }
}

/// Arguments as a shell has them, or the same settings as a document.
Result<ConfigNode> parse(const std::string& name, const std::string& content) {
  if (starts_with_argument(content)) {
    return parse_megatron_arguments(name, content);
  }
  Result<ConfigNode> document = parse_document(name, content);
  if (document) {
    use_underscores(*document);
  }
  return document;
}

/// A file of arguments belongs to Megatron's script, unlike the map in a case file.
Result<Job> job_from_script(const ConfigNode& arguments) {
  return job_from_megatron(arguments, 0).map([&](Job job) {
    megatron::options(job).is_script = true;
    job.model.name = std::filesystem::path(arguments.file).stem().string();
    return job;
  });
}

}  // namespace

bool is_megatron_key(std::string_view key) { return is_one_of(key, k_own_keys); }

Result<Job> job_from_megatron(const ConfigNode& arguments, std::int64_t padded_vocab) {
  Job job;
  job.framework = megatron::k_name;
  job.model.name = "megatron";
  MapReader reader(arguments, {job.warnings, job.unmodelled});
  read_megatron_sizes(reader, job.model);
  read_mlp(reader, job.model);
  read_embeddings(reader, job.model, padded_vocab);
  read_megatron_layout(reader, job);
  read_megatron_precision(reader, job);
  read_megatron_training(reader, job);
  read_recompute(reader, job);
  read_megatron_attention(reader, job.train);
  read_megatron_layers(reader, job);
  read_megatron_recipe(reader, job.recipe);
  read_megatron_scaling(reader, job.recipe.loss_scaling);
  megatron::read_core_arguments(reader, job);
  for_each_word(k_unsupported_switches,
                [&](std::string_view key) { reader.refuse_true(key, "has no rules here; leave it out"); });
  for_each_word(k_unsupported_values,
                [&](std::string_view key) { reader.refuse(key, "has no rules here; leave it out"); });
  reader.skip_unless_off(k_skipped_arguments);
  accept_known_keys(reader, arguments, megatron::training_keys(), job.recipe);
  if (const Result<void> ok = reader.finish(); !ok) {
    return tl::unexpected(ok.error());
  }
  return job;
}

ConfigReader megatron::reader() {
  return {
      .name = "Megatron arguments",
      .framework = k_name,
      .recognises = [](const ConfigFile& file) { return file.is_arguments || file.has_any(is_megatron_key); },
      .parse = parse,
      .read = [](const std::vector<ConfigNode>& files) { return job_from_script(files[0]); }};
}

}  // namespace commlens
