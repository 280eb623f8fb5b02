#include "commlens/frameworks/training_keys.hpp"

#include <algorithm>
#include <array>
#include <set>

#include <fmt/format.h>

#include "commlens/base/text.hpp"
#include "commlens/config/map_reader.hpp"

namespace commlens {
namespace {

// gpt-neox 4bc66703 megatron/neox_arguments/neox_args.py
constexpr std::string_view k_neox_honoured =
    "activation attention_config bias_gelu_fusion checkpoint_activations deepspeed_extra_args "
    "feedforward_size gpt_j_residual hidden_size init_method init_method_std intermediate_size "
    "layernorm_epsilon lr_decay_fraction lr_decay_iters lr_decay_style make_vocab_size_divisible_by "
    "max_position_embeddings min_lr model_parallel_size no_weight_tying norm num_attention_heads "
    "num_layers onnx_safe output_layer_init_method padded_vocab_size partition_activations "
    "pipe_parallel_size pos_emb precision rotary_emb_base rotary_pct seed seq_length sequence_parallel "
    "tokenizer_type train_iters use_bias_in_norms vocab_file warmup weight_decay";

constexpr std::string_view k_neox_irrelevant =
    "adlr_autoresume adlr_autoresume_interval allow_chopped apply_query_key_layer_scaling "
    "attention_softmax_in_fp32 autotuning_run base_shapes_file batch_size bias_dropout_fusion "
    "char_level_ppl checkpoint_factor checkpoint_in_cpu checkpoint_num_layers checkpoint_scale "
    "checkpoint_validation_with_forward_pass comment config_files contiguous_checkpointing data_impl "
    "data_path dataset_impl decoder_seq_length deepscale_config deepspeed_activation_checkpointing "
    "deepspeed_mpi deepspeed_slurm detect_nvlink_pairs dim_att distributed_backend do_test do_train "
    "do_valid dynamic_loss_scale eval_interval eval_iters eval_results_prefix eval_tasks exclude "
    "exit_interval extra_save_iters force_multi gas global_num_gpus gmlp_attn_dim "
    "gradient_noise_scale_cpu_offload gradient_noise_scale_n_batches hostfile hysteresis include "
    "is_pipe_parallel iteration keep_last_n_checkpoints label_data_paths launcher layernorm_fusion "
    "lazy_mpu_init load local_rank log_dir log_grad_norm log_grad_pct_zeros log_interval "
    "log_optimizer_states log_param_norm loss_scale loss_scale_window mamba_causal_conv_fusion "
    "mamba_inner_func_fusion mamba_selective_fp32_params mamba_selective_scan_fusion "
    "mamba_use_bias_in_conv mamba_use_bias_in_linears master_addr master_port maximum_tokens "
    "memory_profiling memory_profiling_path merge_file min_scale mmap_warmup mup_attn_temp "
    "mup_embedding_mult mup_init_scale mup_output_temp mup_rp_embedding_mult mup_width_scale "
    "no_load_optim no_load_rng no_save_optim no_save_rng no_ssh_check num_gpus num_nodes num_samples "
    "num_workers online_dataserver_ips online_dataserver_ports override_lr_scheduler pack_impl "
    "param_sharing_style pipe_partition_method profile profile_backward profile_step_start "
    "profile_step_stop prompt_end pytorch_profile rank reward_data_paths rms_norm_epsilon rmsnorm_fusion "
    "rope_fusion rotary_save_freqs_buffer rpe_max_distance rpe_num_buckets s3_chunk_size s3_path "
    "sample_input_file sample_output_file save save_base_shapes save_interval save_iters "
    "scaled_masked_softmax_fusion scaled_upper_triang_masked_softmax_fusion scalenorm_epsilon "
    "short_seq_prob sparsity_config split synchronize_each_layer temperature tensorboard_dir "
    "test_data_paths test_data_weights test_label_data_paths test_reward_data_paths text_gen_type top_k "
    "top_p train_data_paths train_data_weights train_reward_data_paths use_checkpoint_lr_scheduler "
    "use_comet use_cpu_initialization use_flashattn_swiglu use_shared_fs use_wandb user_script "
    "valid_data_paths valid_data_weights valid_label_data_paths valid_reward_data_paths wandb_group "
    "wandb_host wandb_init_all_ranks wandb_project wandb_run_name wandb_team weight_by_num_documents "
    "weighted_document_limit weighted_sampler_alpha world_size zero_allgather_bucket_size "
    "zero_contiguous_gradients zero_reduce_bucket_size zero_reduce_scatter zero_stage";

constexpr std::string_view k_neox_refused =
    "bf16_lm_cross_entropy context_parallel_size coord_check deepscale gpt_j_tied "
    "log_gradient_noise_scale mlp_type model_arch moe_expert_parallel_size moe_num_experts "
    "num_encoder_layers num_kv_heads num_unique_layers opt_pos_emb_offset output_layer_parallelism "
    "soft_prompt_tuning te_columnparallel te_fp8_mha te_layernorm_mlp te_mha te_rowparallel train_impl "
    "use_bias_in_attn_linear use_bias_in_mlp use_qk_layernorm use_tutel";

constexpr std::array<UnhonouredKey, 16> k_neox_warned = {{
    {"attention_dropout", "0", "no dropout"},
    {"clip_grad", "off", "gradient_clipping decides"},
    {"eod_mask_loss", "off", "every token counts"},
    {"extra_sentinel_tokens", "off", "no such tokens"},
    {"finetune", "off", "starts from its own values"},
    {"fp16_lm_cross_entropy", "off", "the loss is computed in fp32"},
    {"fp32_allreduce", "off", "gradients are summed in the model's type"},
    {"hidden_dropout", "0", "no dropout"},
    {"lr", "off", "optimizer.params.lr decides"},
    {"optimizer_type", "adam Adam adamw AdamW cpu_adam", "AdamW"},
    {"rotary_interleaved", "off", "halves of a head turn together"},
    {"sliding_window_width", "sequence", "attention to the whole sequence"},
    {"train_epochs", "off", "--iterations"},
    {"train_label_data_paths", "off", "every token counts"},
    {"use_bnb_optimizer", "off", "AdamW in fp32"},
    {"use_mup", "off", "no mu-parametrisation"},
}};

// transformers' configurations of gpt2, gpt_neox, llama, mistral and mixtral
constexpr std::string_view k_hugging_face_honoured =
    "activation_function dtype gradient_checkpointing head_dim hidden_act hidden_size initializer_range "
    "intermediate_size layer_norm_eps layer_norm_epsilon max_position_embeddings model_type n_embd n_head "
    "n_inner n_layer n_positions num_attention_heads num_experts_per_tok num_hidden_layers "
    "num_key_value_heads num_local_experts partial_rotary_factor rope_parameters rope_theta "
    "rotary_emb_base rotary_pct tie_word_embeddings torch_dtype use_parallel_residual "
    "vocab_size";

constexpr std::string_view k_hugging_face_irrelevant =
    "_attn_implementation _commit_hash _name_or_path bad_words_ids begin_suppress_tokens bos_token_id "
    "chunk_size_feed_forward classifier_dropout cross_attention_hidden_size decoder_start_token_id "
    "diversity_penalty do_sample early_stopping encoder_no_repeat_ngram_size eos_token_id "
    "exponential_decay_length_penalty finetuning_task forced_bos_token_id forced_eos_token_id id2label "
    "initializer_factor is_decoder label2id length_penalty mask_token_id max_length max_window_layers "
    "min_length n_ctx no_repeat_ngram_size num_beam_groups num_beams num_return_sequences "
    "output_attentions output_hidden_states output_past output_router_logits output_scores pad_token_id "
    "prefix pretraining_tp problem_type remove_invalid_values reorder_and_upcast_attn repetition_penalty "
    "return_dict return_dict_in_generate rms_norm_eps router_aux_loss_coef router_jitter_noise "
    "sep_token_id summary_activation summary_first_dropout summary_proj_to_labels summary_type "
    "summary_use_proj suppress_tokens task_specific_params temperature tf_legacy_loss tokenizer_class "
    "top_k top_p transformers_version typical_p unk_token_id use_bfloat16 use_cache use_sliding_window";

constexpr std::string_view k_hugging_face_refused =
    "add_cross_attention architectures attention_bias auto_map is_encoder_decoder mlp_bias pruned_heads "
    "quantization_config tie_encoder_decoder torchscript";

constexpr std::array<UnhonouredKey, 12> k_hugging_face_warned = {{
    {"attention_dropout", "0", "no dropout"},
    {"attention_probs_dropout_prob", "0", "no dropout"},
    {"attn_pdrop", "0", "no dropout"},
    {"embd_pdrop", "0", "no dropout"},
    {"hidden_dropout", "0", "no dropout"},
    {"hidden_dropout_prob", "0", "no dropout"},
    {"layer_types", "off", "full attention in every layer"},
    {"resid_pdrop", "0", "no dropout"},
    {"rope_scaling", "off", "positions are not scaled"},
    {"scale_attn_by_inverse_layer_idx", "off", "the same scale in every layer"},
    {"scale_attn_weights", "true True", "scores are scaled"},
    {"sliding_window", "sequence", "attention to the whole sequence"},
}};

// Megatron-LM core_v0.7.0 megatron/training/arguments.py
constexpr std::string_view k_megatron_honoured =
    "hysteresis initial_loss_scale loss_scale_window min_loss_scale "
    "adam_beta1 adam_beta2 adam_eps add_qkv_bias bf16 clip_grad context_parallel_size disable_bias_linear "
    "encoder_num_layers encoder_seq_length expert_model_parallel_size ffn_hidden_size fp16 "
    "global_batch_size group_query_attention hidden_size init_method_std init_method_xavier_uniform "
    "kv_channels layernorm_epsilon lr lr_decay_iters lr_decay_style lr_warmup_fraction lr_warmup_iters "
    "make_vocab_size_divisible_by max_position_embeddings micro_batch_size min_lr moe_router_topk "
    "moe_token_dispatcher_type no_bias_gelu_fusion norm_epsilon normalization num_attention_heads "
    "num_experts num_layers num_layers_per_virtual_pipeline_stage num_query_groups onnx_safe openai_gelu "
    "optimizer pipeline_model_parallel_size position_embedding_type recompute_activations "
    "recompute_granularity recompute_method rotary_base rotary_percent seed seq_length sequence_parallel "
    "swiglu tensor_model_parallel_size tokenizer_type train_iters untie_embeddings_and_output_weights "
    "use_distributed_optimizer use_rotary_position_embeddings vocab_size weight_decay";

constexpr std::string_view k_megatron_irrelevant =
    "add_position_embedding adlr_autoresume adlr_autoresume_interval apply_layernorm_1p "
    "apply_query_key_layer_scaling async_save attention_softmax_in_fp32 auto_detect_ckpt_format "
    "barrier_with_L1_time bias_dropout_fusion bias_gelu_fusion bias_swiglu_fusion "
    "check_for_nan_in_loss_and_grad ckpt_format ckpt_fully_parallel_save "
    "clone_scatter_output_in_embedding cpu_offloading data_cache_path data_path dataloader_type "
    "decoder_seq_length delay_grad_reduce delay_param_gather deterministic_mode "
    "disable_straggler_on_startup dist_ckpt_format distribute_saved_activations distributed_backend "
    "distributed_timeout_minutes empty_unused_memory_level eval_interval eval_iters exit_interval "
    "exit_on_missing_checkpoint gradient_accumulation_fusion "
    "inference_batch_times_seqlen_threshold lazy_mpu_init legacy_tokenizer load "
    "local_rank log_batch_size_to_tensorboard log_interval log_learning_rate_to_tensorboard "
    "log_loss_scale_to_tensorboard log_memory_to_tensorboard log_progress log_throughput "
    "log_timers_to_tensorboard log_validation_ppl_to_tensorboard log_world_size_to_tensorboard "
    "manual_gc manual_gc_eval manual_gc_interval mask_prob masked_softmax_fusion "
    "merge_file mmap_bin_files mock_data moe_grouped_gemm moe_input_jitter_eps "
    "moe_per_layer_logging moe_router_load_balancing_type moe_token_dropping "
    "nccl_communicator_config_path no_async_tensor_model_parallel_allreduce no_bias_dropout_fusion "
    "no_bias_swiglu_fusion no_create_attention_mask_in_dataloader no_gradient_accumulation_fusion "
    "no_load_optim no_load_rng no_masked_softmax_fusion no_mmap_bin_files no_overlap_p2p_communication "
    "no_persist_layer_norm no_query_key_layer_scaling no_rope_fusion no_save_optim no_save_rng "
    "no_scatter_gather_tensors_in_pipeline num_dataset_builder_threads num_workers overlap_grad_reduce "
    "overlap_p2p_communication override_opt_param_scheduler params_dtype perform_initialization "
    "persist_layer_norm profile profile_ranks profile_step_end profile_step_start query_in_block_prob "
    "rank recompute_num_layers sample_rate save save_interval sgd_momentum short_seq_prob skip_train "
    "split straggler_minmax_count tensorboard_dir tensorboard_log_interval tensorboard_queue_size "
    "test_data_path tiktoken_num_special_tokens tiktoken_pattern timing_log_level timing_log_option "
    "titles_data_path tokenizer_model train_data_path transformer_impl use_checkpoint_opt_param_scheduler "
    "use_cpu_initialization use_dist_ckpt use_flash_attn use_mcore_models use_one_sent_docs "
    "valid_data_path variable_seq_lengths vocab_file wandb_exp_name wandb_project wandb_save_dir "
    "world_size";

constexpr std::string_view k_megatron_refused =
    "check_weight_hash_across_dp_replicas_interval data_parallel_sharding_strategy ddp_bucket_size "
    "decoder_first_pipeline_num_layers decoder_last_pipeline_num_layers defer_embedding_wgrad_compute "
    "encoder_pipeline_model_parallel_size encoder_tensor_model_parallel_size exit_duration_in_mins "
    "exit_signal_handler expert_tensor_parallel_size fp16_lm_cross_entropy fp32_residual_connection "
    "fp8_format fp8_param_gather log_num_zeros_in_grad log_params_norm loss_scale moe_aux_loss_coeff "
    "moe_expert_capacity_factor moe_extended_tp moe_ffn_hidden_size moe_layer_freq "
    "moe_pad_expert_input_to_capacity moe_shared_expert_intermediate_size moe_z_loss_coeff "
    "multi_latent_attention num_distributed_optimizer_instances overlap_param_gather "
    "pipeline_model_parallel_layout pipeline_model_parallel_split_rank qk_layernorm rampup_batch_size "
    "retro_add_retriever spec standalone_embedding_stage tp_comm_overlap use_checkpoint_args "
    "use_custom_fsdp use_legacy_models use_megatron_fsdp use_ring_exchange_p2p use_torch_fsdp2 "
    "use_tp_pp_dp_mapping vocab_extra_ids yaml_cfg";

constexpr std::array<UnhonouredKey, 23> k_megatron_warned = {{
    {"accumulate_allreduce_grads_in_fp32", "off", "gradients are reduced in the model's type"},
    {"apply_residual_connection_post_layernorm", "off", "residuals from before the norm"},
    {"attention_dropout", "0", "no dropout"},
    {"data_parallel_random_init", "off", "the same values on all ranks"},
    {"end_weight_decay", "off", "weight_decay throughout"},
    {"eod_mask_loss", "off", "every token counts"},
    {"finetune", "off", "starts from its own values"},
    {"head_lr_mult", "1", "one rate for all"},
    {"hidden_dropout", "0", "no dropout"},
    {"lr_decay_samples", "off", "give lr_decay_iters"},
    {"lr_warmup_init", "0", "from 0"},
    {"lr_warmup_samples", "off", "give lr_warmup_iters"},
    {"no_initialization", "off", "values are drawn"},
    {"no_position_embedding", "off", "position_embedding_type decides"},
    {"reset_attention_mask", "off", "attention crosses documents"},
    {"reset_position_ids", "off", "positions cross documents"},
    {"rotary_interleaved", "off", "halves of a head turn together"},
    {"rotary_scaling_factor", "1 off", "positions are not scaled"},
    {"rotary_seq_len_interpolation_factor", "1 off", "positions are not scaled"},
    {"squared_relu", "off", "gelu"},
    {"start_weight_decay", "off", "weight_decay throughout"},
    {"train_samples", "off", "--iterations"},
    {"weight_decay_incr_style", "constant", "constant"},
}};

// DeepSpeed 0.14.0 runtime/config.py and runtime/constants.py; keys of sections as section.key
constexpr std::string_view k_deepspeed_honoured =
    "fp16.consecutive_hysteresis fp16.hysteresis fp16.initial_scale_power fp16.loss_scale "
    "fp16.loss_scale_window fp16.min_loss_scale "
    "activation_checkpointing activation_checkpointing.partition_activations bf16 bf16.enabled bfloat16 "
    "bfloat16.enabled fp16 fp16.auto_cast fp16.enabled fp16.fp16 fp16.type gradient_accumulation_steps "
    "gradient_clipping optimizer optimizer.params optimizer.params.betas optimizer.params.eps "
    "optimizer.params.lr optimizer.params.weight_decay optimizer.type train_batch_size "
    "train_micro_batch_size_per_gpu zero_optimization zero_optimization.param_persistence_threshold "
    "zero_optimization.stage zero_optimization.stage3_param_persistence_threshold "
    "zero_optimization.zero_hpz_partition_size zero_optimization.zero_quantized_gradients "
    "zero_optimization.zero_quantized_weights";

constexpr std::string_view k_deepspeed_irrelevant =
    "activation_checkpointing.contiguous_memory_optimization activation_checkpointing.cpu_checkpointing "
    "activation_checkpointing.number_checkpoints activation_checkpointing.profile "
    "activation_checkpointing.synchronize_checkpoint_boundary aio checkpoint comet comms_logger "
    "csv_monitor data_types dataloader_drop_last deepspeed dump_state flops_profiler "
    "fp16.dynamic_loss_scale fp16.immediate_grad_update "
    "fp16.loss_scaler "
    "fp16.min_scale fp16.opt_level gradient_predivide_factor graph_harvesting load_universal "
    "memory_breakdown nebula optimizer.legacy_fusion optimizer.params.cuda_aware "
    "optimizer.params.fp32_optimizer_states optimizer.params.freeze_step optimizer.params.torch_adam "
    "pipeline pipeline.grad_partitioned pipeline.micro_batches pipeline.partition "
    "pipeline.pipe_partitioned pipeline.seed_layers pipeline.stages pipeline.use_reentrant "
    "prescale_gradients seq_parallel_communication_data_type steps_per_print tensorboard timers "
    "use_data_before_expert_parallelism use_node_local_storage wall_clock_breakdown wandb "
    "zero_allow_untested_optimizer zero_force_ds_cpu_optimizer zero_optimization.allgather_bucket_size "
    "zero_optimization.allgather_partitions zero_optimization.contiguous_gradients "
    "zero_optimization.cpu_offload zero_optimization.cpu_offload_param "
    "zero_optimization.cpu_offload_use_pin_memory zero_optimization.elastic_checkpoint "
    "zero_optimization.gather_16bit_weights_on_model_save zero_optimization.ignore_unused_parameters "
    "zero_optimization.legacy_stage1 zero_optimization.load_from_fp32_weights "
    "zero_optimization.log_trace_cache_warnings zero_optimization.max_live_parameters "
    "zero_optimization.max_reuse_distance zero_optimization.memory_efficient_linear "
    "zero_optimization.mics_hierarchical_params_gather zero_optimization.model_persistence_threshold "
    "zero_optimization.offload_optimizer zero_optimization.offload_param zero_optimization.overlap_comm "
    "zero_optimization.override_module_apply zero_optimization.pin_memory "
    "zero_optimization.pipeline_loading_checkpoint zero_optimization.prefetch_bucket_size "
    "zero_optimization.reduce_bucket_size zero_optimization.reduce_scatter "
    "zero_optimization.round_robin_gradients zero_optimization.stage3_gather_16bit_weights_on_model_save "
    "zero_optimization.stage3_gather_fp16_weights_on_model_save "
    "zero_optimization.stage3_max_live_parameters zero_optimization.stage3_max_reuse_distance "
    "zero_optimization.stage3_model_persistence_threshold zero_optimization.stage3_prefetch_bucket_size "
    "zero_optimization.sub_group_size zero_optimization.use_multi_rank_bucket_allreduce";

constexpr std::string_view k_deepspeed_refused =
    "amp autotuning compile compression_training curriculum_learning data_efficiency data_parallel_size "
    "disable_allgather eigenvalue elasticity fp16.fp16_master_weights_and_grads hybrid_engine "
    "pipeline.activation_checkpoint_interval progressive_layer_drop quantize_training "
    "sequence_parallel_size sparse_gradients tensor_parallel weight_quantization "
    "zero_optimization.cpu_offload_params zero_optimization.mics_shard_size "
    "zero_optimization.module_granularity_threshold zero_optimization.stage3_module_granularity_threshold "
    "zero_optimization.stage3_use_all_reduce_for_fetch_params "
    "zero_optimization.use_all_reduce_for_fetch_params zero_optimization.zenflow "
    "zero_optimization.zero_quantized_nontrainable_weights zero_optimization.zeropp_loco_param";

constexpr std::array<UnhonouredKey, 9> k_deepspeed_warned = {{
    {"communication_data_type", "off", "gradients are reduced in the model's type"},
    {"data_types.grad_accum_dtype", "fp32 float32 off", "gradients are summed in fp32"},
    {"optimizer.params.adam_w_mode", "true True", "decay is decoupled"},
    {"optimizer.params.amsgrad", "off", "plain AdamW"},
    {"optimizer.params.bias_correction", "true True", "moments are corrected"},
    {"optimizer.params.max_grad_norm", "off", "gradient_clipping decides"},
    {"optimizer.params.momentum", "off", "AdamW has none"},
    {"scheduler", "off", "the schedule of --lr and --warmup"},
    {"sparse_attention", "off", "full attention"},
}};

const std::array<TrainingKeys, 4> k_keys = {
    {{k_neox_honoured, k_neox_irrelevant, k_neox_refused, k_neox_warned},
     {k_deepspeed_honoured, k_deepspeed_irrelevant, k_deepspeed_refused, k_deepspeed_warned},
     {k_hugging_face_honoured, k_hugging_face_irrelevant, k_hugging_face_refused, k_hugging_face_warned},
     {k_megatron_honoured, k_megatron_irrelevant, k_megatron_refused, k_megatron_warned}}};

void append_words(std::string_view words, std::vector<std::string_view>& all) {
  while (!words.empty()) {
    const std::size_t end = std::min(words.find(' '), words.size());
    all.push_back(words.substr(0, end));
    words.remove_prefix(std::min(end + 1, words.size()));
  }
}

/// The value of "section.key", or null.
const ConfigNode* at_path(const ConfigNode& map, std::string_view path) {
  const ConfigNode* node = &map;
  while (node != nullptr && !path.empty()) {
    const std::size_t end = std::min(path.find('.'), path.size());
    node = node->kind == ConfigNode::Kind::map ? find(*node, path.substr(0, end)) : nullptr;
    path.remove_prefix(std::min(end + 1, path.size()));
  }
  return node;
}

bool is_neutral(const ConfigNode& value, std::string_view neutral) {
  std::vector<std::string_view> words;
  append_words(neutral, words);
  return std::any_of(words.begin(), words.end(), [&](std::string_view word) {
    const Result<double> number = parse_number(word);
    if (word == "sequence") {
      return true;  // TrainingRecipe::attention_window keeps it until the sequence is known
    }
    return (word == "off" && is_off(value)) || value.text == word ||
           (number && as_number(value).value_or(*number + 1) == *number);
  });
}

std::string text_of(const ConfigNode& value) {
  switch (value.kind) {
    case ConfigNode::Kind::map:
      return "{…}";
    case ConfigNode::Kind::list:
      return "[…]";
    case ConfigNode::Kind::null:
    case ConfigNode::Kind::scalar:
      break;
  }
  return shown_text(value.text);
}

}  // namespace

const TrainingKeys& training_keys(KeySource source) { return k_keys.at(static_cast<std::size_t>(source)); }

std::optional<KeyUse> use_of(KeySource source, std::string_view key) {
  const TrainingKeys& keys = training_keys(source);
  if (is_one_of(key, keys.honoured)) {
    return KeyUse::honoured;
  }
  if (is_one_of(key, keys.irrelevant)) {
    return KeyUse::irrelevant;
  }
  if (is_one_of(key, keys.refused)) {
    return KeyUse::refused;
  }
  const bool is_warned = std::any_of(keys.warned.begin(), keys.warned.end(),
                                     [&](const UnhonouredKey& each) { return each.name == key; });
  return is_warned ? std::optional(KeyUse::warned) : std::nullopt;
}

std::vector<std::string_view> known_keys(KeySource source) {
  const TrainingKeys& keys = training_keys(source);
  std::vector<std::string_view> all;
  for (const std::string_view words : {keys.honoured, keys.irrelevant, keys.refused}) {
    append_words(words, all);
  }
  for (const UnhonouredKey& key : keys.warned) {
    all.push_back(key.name);
  }
  std::erase_if(all, [](std::string_view key) { return key.find('.') != std::string_view::npos; });
  return all;
}

bool is_known_key(KeySource source, std::string_view key) {
  static const auto sets = [] {
    std::array<std::set<std::string_view>, 4> all;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const std::vector<std::string_view> keys = known_keys(static_cast<KeySource>(i));
      all.at(i).insert(keys.begin(), keys.end());
    }
    return all;
  }();
  return sets.at(static_cast<std::size_t>(source)).contains(key);
}

std::vector<std::string> not_honoured(const ConfigNode& map, KeySource source) {
  std::vector<std::string> texts;
  for (const UnhonouredKey& key : training_keys(source).warned) {
    const ConfigNode* value = at_path(map, key.name);
    if (value != nullptr && value->kind != ConfigNode::Kind::null && !is_neutral(*value, key.neutral)) {
      texts.push_back(not_honoured_text(key.name, text_of(*value), key.instead));
    }
  }
  return texts;
}

std::string not_honoured_text(std::string_view key, std::string_view value, std::string_view instead) {
  return fmt::format("{}={} ({})", key, value, instead);
}

}  // namespace commlens
