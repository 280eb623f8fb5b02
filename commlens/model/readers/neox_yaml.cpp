#include "commlens/model/readers/neox_yaml.hpp"

#include <filesystem>
#include <string_view>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "commlens/model/framework_options.hpp"
#include "commlens/model/readers/deepspeed_json.hpp"
#include "commlens/model/readers/map_reader.hpp"

namespace commlens {
namespace {

// Keys the functions below read or refuse; `is_neox_key` needs them by name.
constexpr std::string_view k_read_neox_keys =
    "activation attention_config checkpoint_activations checkpoint_num_layers context_parallel_size "
    "deepspeed_extra_args feedforward_size fp16_lm_cross_entropy fp32_allreduce gpt_j_residual "
    "gpt_j_tied hidden_size intermediate_size make_vocab_size_divisible_by max_position_embeddings "
    "mlp_type model_arch model_parallel_size moe_expert_parallel_size moe_num_experts no_weight_tying "
    "norm num_attention_heads num_encoder_layers num_kv_heads num_layers num_unique_layers "
    "opt_pos_emb_offset output_layer_parallelism padded_vocab_size partition_activations "
    "pipe_parallel_size pipe_partition_method pos_emb precision seq_length sequence_parallel "
    "soft_prompt_tuning te_columnparallel te_fp8_mha te_layernorm_mlp te_mha te_rowparallel "
    "tokenizer_type train_impl use_bias_in_attn_linear use_bias_in_mlp use_bias_in_norms "
    "use_qk_layernorm use_tutel vocab_file weight_decay";

// Other arguments of megatron/neox_arguments/neox_args.py: they change no message.
constexpr std::string_view k_other_neox_keys =
    "adlr_autoresume adlr_autoresume_interval allow_chopped apply_query_key_layer_scaling "
    "attention_dropout attention_softmax_in_fp32 autotuning_run base_shapes_file batch_size "
    "bias_dropout_fusion bias_gelu_fusion char_level_ppl checkpoint_factor "
    "checkpoint_in_cpu checkpoint_scale checkpoint_validation_with_forward_pass clip_grad comment "
    "config_files contiguous_checkpointing data_impl data_path dataset_impl "
    "decoder_seq_length deepscale_config deepspeed_activation_checkpointing deepspeed_mpi "
    "deepspeed_slurm detect_nvlink_pairs dim_att distributed_backend do_test do_train do_valid "
    "dynamic_loss_scale eod_mask_loss eval_interval eval_iters eval_results_prefix eval_tasks exclude "
    "exit_interval extra_save_iters extra_sentinel_tokens finetune force_multi gas global_num_gpus "
    "gmlp_attn_dim gradient_noise_scale_cpu_offload gradient_noise_scale_n_batches hidden_dropout "
    "hostfile hysteresis include init_method init_method_std is_pipe_parallel iteration "
    "keep_last_n_checkpoints label_data_paths launcher layernorm_epsilon layernorm_fusion lazy_mpu_init "
    "load local_rank log_dir log_grad_norm log_grad_pct_zeros log_interval "
    "log_optimizer_states log_param_norm loss_scale loss_scale_window lr lr_decay_fraction "
    "lr_decay_iters lr_decay_style mamba_causal_conv_fusion mamba_inner_func_fusion "
    "mamba_selective_fp32_params mamba_selective_scan_fusion mamba_use_bias_in_conv "
    "mamba_use_bias_in_linears master_addr master_port maximum_tokens memory_profiling "
    "memory_profiling_path merge_file min_lr min_scale mmap_warmup mup_attn_temp mup_embedding_mult "
    "mup_init_scale mup_output_temp mup_rp_embedding_mult mup_width_scale no_load_optim no_load_rng "
    "no_save_optim no_save_rng no_ssh_check num_gpus num_nodes num_samples num_workers "
    "online_dataserver_ips online_dataserver_ports onnx_safe optimizer_type output_layer_init_method "
    "override_lr_scheduler pack_impl param_sharing_style profile profile_backward profile_step_start "
    "profile_step_stop prompt_end pytorch_profile rank reward_data_paths rms_norm_epsilon "
    "rmsnorm_fusion rope_fusion rotary_emb_base rotary_interleaved rotary_pct rotary_save_freqs_buffer "
    "rpe_max_distance rpe_num_buckets s3_chunk_size s3_path sample_input_file sample_output_file save "
    "save_base_shapes save_interval save_iters scaled_masked_softmax_fusion "
    "scaled_upper_triang_masked_softmax_fusion scalenorm_epsilon seed short_seq_prob "
    "sliding_window_width sparsity_config split synchronize_each_layer temperature tensorboard_dir "
    "test_data_paths test_data_weights test_label_data_paths test_reward_data_paths text_gen_type top_k "
    "top_p train_data_paths train_data_weights train_epochs train_iters train_label_data_paths "
    "train_reward_data_paths use_bnb_optimizer use_checkpoint_lr_scheduler use_comet "
    "use_cpu_initialization use_flashattn_swiglu use_mup use_shared_fs use_wandb user_script "
    "valid_data_paths valid_data_weights valid_label_data_paths valid_reward_data_paths wandb_group "
    "wandb_host wandb_init_all_ranks wandb_project wandb_run_name wandb_team warmup "
    "weight_by_num_documents weighted_document_limit weighted_sampler_alpha world_size "
    "zero_allgather_bucket_size zero_contiguous_gradients zero_reduce_bucket_size zero_reduce_scatter "
    "zero_stage";

// Arguments that can add or change messages and have no rules: left out, unless switched off.
constexpr std::string_view k_left_out_neox_keys =
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
                    {"sinusoidal", Positions::none},
                    {"alibi", Positions::none},
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
  arguments.read("sequence_parallel", job.layout.sequence_parallel);
  if (!job.layout.sequence_parallel || is_sequence_parallel_neox(job)) {
    return;
  }
  if (!job.framework_version.empty()) {
    arguments.fail("sequence_parallel",
                   fmt::format("is not known to GPT-NeoX {}; set framework_version {}",
                               shown_text(job.framework_version), k_neox_sequence_parallel_version));
    return;
  }
  job.framework_version = k_neox_sequence_parallel_version;
  job.warnings.push_back(
      fmt::format("{}: sequence parallelism came after commit {}; the rules of {} are used",
                  arguments.where("sequence_parallel"), k_neox_version, k_neox_sequence_parallel_version));
}

void read_neox_training(MapReader& arguments, Job& job) {
  bool checkpoints = false;
  arguments.read("checkpoint_activations", checkpoints);
  arguments.read("checkpoint_num_layers", job.neox.checkpoint_num_layers);
  set_recompute(job, checkpoints ? Recompute::full : Recompute::none);
  if (const ConfigNode* attention = arguments.node("attention_config")) {
    // "flash" is one of its names, the others are sparse or plain attention (neox_arguments/neox_args.py).
    job.train.attention = mentions(*attention, "flash") ? Attention::flash : Attention::eager;
  }
  bool partitions = false;
  arguments.read("partition_activations", partitions);
  job.neox.partition_activations = partitions && checkpoints;
  job.deepspeed.partition_activations = partitions && checkpoints;
  arguments.read("fp32_allreduce", job.neox.fp32_allreduce);
  arguments.read("fp16_lm_cross_entropy", job.neox.fp16_lm_cross_entropy);
  arguments.read("pipe_partition_method", job.neox.partition_method);
  double weight_decay = 0.01;
  arguments.read("weight_decay", weight_decay);
  job.deepspeed.weight_decay_groups =
      weight_decay != 0.0;              // megatron/model/utils.py: one group without decay
  job.deepspeed.attention_mask = true;  // training.py:775 set_has_attention_mask(True)
  DType precision = job.train.dtype;
  arguments.choose(
      "precision",
      {{"bfloat16", DType::bf16}, {"bf16", DType::bf16}, {"fp16", DType::fp16}, {"fp32", DType::fp32}},
      precision);
  if (job.train.dtype != DType::fp32 && precision != job.train.dtype) {
    arguments.fail("precision", fmt::format("says {}, the fp16 or bf16 section says {}", name_of(precision),
                                            name_of(job.train.dtype)));
  }
  job.train.dtype = precision;
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
      return failure(fmt::format("{}: '{}' stands at {} too; keep one", extra->items[index].where(),
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

}  // namespace

bool is_neox_key(std::string_view key) {
  return is_one_of(key, k_read_neox_keys) || is_one_of(key, k_left_out_neox_keys) ||
         is_one_of(key, k_other_neox_keys);
}

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
        return failure(fmt::format("{}: '{}' stands at {} too; GPT-NeoX takes a key from one file only",
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
  job.framework = Framework::neox;
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
  settle_width_sizes(job);
  read_norm_and_positions(reader, model);
  read_vocab(reader, model, job.warnings);
  read_neox_layout(reader, job);
  read_neox_training(reader, job);
  refuse_what_has_no_rules(reader, model);
  reader.leave_out_unless_off(k_left_out_neox_keys);
  reader.accept(k_other_neox_keys);
  if (const Result<void> ok = reader.finish(); !ok) {
    return tl::unexpected(ok.error());
  }
  if (job.framework_version.empty()) {
    job.framework_version = k_neox_version;
  }
  if (padded_vocab > 0) {
    model.vocab = model.raw_vocab = padded_vocab;
    model.vocab_is_padded = true;
    model.vocab_is_assumed = false;
  }
  return job;
}

}  // namespace commlens
