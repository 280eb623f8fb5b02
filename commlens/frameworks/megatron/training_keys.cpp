// Lists what a training does with every key of its configurations.
#include "commlens/frameworks/training_keys.hpp"

#include <array>

#include "commlens/frameworks/megatron/reader.hpp"

namespace commlens::megatron {
namespace {

// Megatron-LM core_v0.7.0 megatron/training/arguments.py
constexpr std::string_view k_honoured =
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

constexpr std::string_view k_irrelevant =
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
    "merge_file mmap_bin_files mock_data moe_input_jitter_eps "
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

constexpr std::string_view k_refused =
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

constexpr std::array<UnhonouredKey, 34> k_warned = {{
    {"accumulate_allreduce_grads_in_fp32", "off", "gradients are reduced in the model's type"},
    {"activation_func_clamp_value", "off", "activations are not cut off"},
    {"apply_residual_connection_post_layernorm", "off", "residuals from before the norm"},
    {"attention_dropout", "0", "no dropout"},
    {"data_parallel_random_init", "off", "the same values on all ranks"},
    {"decoupled_lr", "off", "one rate for all"},
    {"embedding_init_method_std", "off", "init_method_std"},
    {"end_weight_decay", "off", "weight_decay throughout"},
    {"eod_mask_loss", "off", "every token counts"},
    {"fim_data", "off", "documents as they are"},
    {"finetune", "off", "starts from its own values"},
    {"glu_linear_offset", "0", "no offset"},
    {"head_lr_mult", "1", "one rate for all"},
    {"hidden_dropout", "0", "no dropout"},
    {"lr_decay_samples", "off", "give lr_decay_iters"},
    {"lr_warmup_init", "0", "from 0"},
    {"lr_warmup_samples", "off", "give lr_warmup_iters"},
    {"no_initialization", "off", "values are drawn"},
    {"no_position_embedding", "off", "position_embedding_type decides"},
    {"no_rope_freq", "off", "positions in every layer"},
    {"qk_clip", "off", "scores are not cut off"},
    {"qk_l2_norm", "off", "no norm of queries and keys"},
    {"reset_attention_mask", "off", "attention crosses documents"},
    {"reset_position_ids", "off", "positions cross documents"},
    {"rotary_interleaved", "off", "halves of a head turn together"},
    {"rotary_scaling_factor", "1 off", "positions are not scaled"},
    {"rotary_seq_len_interpolation_factor", "1 off", "positions are not scaled"},
    {"squared_relu", "off", "gelu"},
    {"start_weight_decay", "off", "weight_decay throughout"},
    {"train_samples", "off", "--iterations"},
    {"use_mup", "off", "widths do not scale the rates"},
    {"use_rope_scaling", "off", "positions are not scaled"},
    {"weight_decay_incr_style", "constant", "constant"},
    {"window_size", "off", "attention over the whole sequence"},
}};

constexpr TrainingKeys k_keys{k_honoured, k_irrelevant, k_refused, k_warned};

}  // namespace

const TrainingKeys& training_keys() { return k_keys; }

}  // namespace commlens::megatron
