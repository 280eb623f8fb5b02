// The arguments of Megatron-LM core 0.19.2, megatron/training/arguments.py and the classes that it makes
// arguments of, and older ones.
#include "commlens/frameworks/megatron/argument_lists.hpp"

#include <algorithm>
#include <array>
#include <string>

#include <fmt/format.h>

#include "commlens/config/map_reader.hpp"

namespace commlens::megatron {
namespace {

constexpr std::string_view k_inert =
    "activation_func_clamp_value activation_offload_fraction add_position_embedding "
    "adlr_autoresume_interval allow_ambiguous_pad_tokens app_tag_run_name app_tag_run_version "
    "apply_layernorm_1p apply_query_key_layer_scaling apply_residual_connection_post_layernorm "
    "apply_wd_to_qk_layernorm async_ckpt_cpu_priority async_ckpt_io_priority async_ckpt_use_cpu_shm "
    "async_save async_strategy attention_dropout attention_softmax_in_fp32 auto_detect_ckpt_format "
    "batch_invariant_mode bert_embedder_type bert_load bert_no_binary_head biencoder_projection_dim "
    "biencoder_shared_query_context_model block_data_path cache_mla_latents calc_ft_timeouts "
    "calculate_mfu chat_template check_for_large_grads check_for_spiky_loss "
    "ckpt_assume_constant_structure ckpt_convert_format ckpt_convert_save "
    "ckpt_convert_update_legacy_dist_opt_format ckpt_format ckpt_fully_parallel_load "
    "ckpt_fully_parallel_load_exchange_algo ckpt_fully_parallel_load_process_group "
    "ckpt_fully_parallel_save ckpt_fully_parallel_save_process_group ckpt_step classes_fraction "
    "config_logger_dir cpu_offloading cpu_offloading_num_layers cpu_offloading_retain_pinned_cpu_buffers "
    "create_all_gather_group cuda_graph_impl cuda_graph_modules cuda_graph_scope cuda_graph_warmup_steps "
    "data_args_path data_cache_path data_impl data_path data_per_class_fraction "
    "dataloader_defer_npy_index_mmap dataloader_fast_cache_load dataloader_type ddp_impl "
    "decode_only_cuda_graphs decoder_num_layers decoder_seq_length decoupled_lr decoupled_min_lr "
    "delay_offload_until_cuda_graph delta_offload_bytes_across_pp_ranks "
    "deterministic_mode dino_bottleneck_size dino_freeze_last_layer dino_head_hidden_size "
    "dino_local_crops_number dino_local_img_size dino_norm_last_layer dino_teacher_temp "
    "dino_warmup_teacher_temp dino_warmup_teacher_temp_epochs disable_bf16_reduced_precision_matmul "
    "disable_gloo_process_groups disable_jit_fuser disable_mamba_mem_eff_path disable_msc "
    "disable_straggler_on_startup disable_symmetric_registration disable_te_fused_rope dist_ckpt_format "
    "dist_ckpt_optim_fully_reshardable dist_ckpt_save_pre_mcore_014 dist_ckpt_strictness "
    "dist_ckpt_workers distrib_optim_fully_reshardable_mem_efficient distributed_backend "
    "distributed_timeout_minutes distributed_timeout_seconds_after_init dsa_indexer_head_dim "
    "dsa_indexer_k_norm_epsilon dsa_indexer_k_norm_fp32 dsa_indexer_loss_coeff dsa_indexer_n_heads "
    "dsa_indexer_rope_interleaved dsa_indexer_skip_topk_offset dsa_indexer_topk dsa_indexer_topk_freq "
    "dsa_indexer_use_sparse_loss dsa_kernel_backend dump_param_to_param_group_map "
    "embedding_init_method_std embedding_path empty_unused_memory_level enable_chunked_prefill "
    "enable_cuda_graph enable_experimental enable_msc enable_one_logger end_weight_decay eod_mask_loss "
    "ep_overlap_early_attn_memory_release error_injection_type evidence_data_path exit_interval "
    "exit_on_missing_checkpoint exit_signal exit_signal_handler_for_dataloader "
    "exit_signal_handler_for_training exp_avg_dtype exp_avg_sq_dtype external_cuda_graph "
    "fake_process_group fault_injector_delay_start_iteration fault_injector_fault_delay "
    "fault_injector_fault_probabilities fault_injector_mtti_seconds fault_injector_num_ranks "
    "fault_injector_offset_seconds fault_injector_ranks fault_injector_seed fim_data fim_eod_token "
    "fim_fragment_rate fim_middle_token fim_no_prefix fim_pad_token fim_prefix_token fim_rate "
    "fim_split_sample fim_spm_rate fim_suffix_token fine_grained_activation_offloading "
    "fine_grained_offloading_max_inflight_offloads finetune flash_attention_version flash_decode "
    "flight_recorder_dump_path flight_recorder_include_stack_trace flight_recorder_trace_buffer_size "
    "fp4_quantizer_factory fp4_recipe fp8_amax_compute_algo fp8_amax_history_len fp8_interval fp8_margin "
    "fp8_output_proj fp8_quantizer_factory fp8_recipe fsdp_db_use_persist_buf_on_alloc_fail "
    "fsdp_double_buffer ft_num_warmup_iters fused_residual_rmsnorm glu_linear_offset grpo_clamp_eps_lower "
    "grpo_clamp_eps_upper grpo_entropy_term_weight grpo_filter_groups_with_same_reward grpo_group_size "
    "grpo_iterations grpo_kl_beta grpo_prompts_per_step head_lr_mult hidden_dropout "
    "high_priority_a2a_comm_stream high_priority_stream_groups ict_head_size ict_load img_h img_w "
    "indexer_batch_size indexer_log_interval inference_batch_times_seqlen_threshold "
    "inference_coordinator_port inference_cuda_graph_all_prefills inference_cuda_graph_max_tokens "
    "inference_cuda_graph_scope inference_disable_ep_consensus inference_disable_triton_nvls_kernels "
    "inference_dynamic_batching inference_dynamic_batching_async_sched_mode "
    "inference_dynamic_batching_block_size inference_dynamic_batching_buffer_size_gb "
    "inference_dynamic_batching_cuda_graph_mixed_prefill_count "
    "inference_dynamic_batching_cuda_graph_sizing_distribution inference_dynamic_batching_logprobs_mode "
    "inference_dynamic_batching_mamba_memory_ratio inference_dynamic_batching_max_requests "
    "inference_dynamic_batching_max_tokens inference_dynamic_batching_num_cuda_graphs "
    "inference_dynamic_batching_paused_buffer_size_gb inference_dynamic_batching_prefix_caching "
    "inference_dynamic_batching_prefix_caching_coordinator_policy "
    "inference_dynamic_batching_prefix_caching_eviction_policy "
    "inference_dynamic_batching_prefix_caching_mamba_gb "
    "inference_dynamic_batching_prefix_caching_routing_alpha inference_dynamic_batching_sampling_backend "
    "inference_dynamic_batching_track_generated_token_events "
    "inference_dynamic_batching_track_paused_request_events "
    "inference_dynamic_batching_unified_memory_level inference_fuse_tp_communication "
    "inference_grouped_gemm_backend inference_logging_step_interval inference_max_requests "
    "inference_max_seq_length inference_moe_disable_fused_quant_kernels "
    "inference_moe_token_dispatcher_type inference_rng_tracker inference_shards "
    "inference_text_gen_server_logging inference_use_synchronous_zmq_collectives inference_wandb_logging "
    "inprocess_active_world_size inprocess_barrier_timeout inprocess_completion_timeout "
    "inprocess_empty_cuda_cache inprocess_granularity inprocess_hard_timeout inprocess_heartbeat_interval "
    "inprocess_heartbeat_timeout inprocess_last_call_wait inprocess_max_iterations "
    "inprocess_monitor_process_interval inprocess_monitor_thread_interval "
    "inprocess_progress_watchdog_interval inprocess_soft_timeout inprocess_termination_grace_time "
    "iter_per_epoch keep_fp8_transpose_cache kitchen_attention_backend langrl_env_config lazy_mpu_init "
    "legacy_tokenizer linear_attention_freq linear_conv_kernel_dim linear_key_head_dim "
    "linear_num_key_heads linear_num_value_heads linear_value_head_dim lion_beta1 lion_beta2 load "
    "load_main_params_from_ckpt local_rank log_batch_size_to_tensorboard log_device_memory_used "
    "log_l2_norm_grad_to_tensorboard log_learning_rate_to_tensorboard log_memory_interval "
    "log_memory_to_tensorboard log_progress log_throughput log_throughput_to_tensorboard "
    "log_validation_ppl_to_tensorboard log_world_size_to_tensorboard logging_level "
    "logits_load_decode_threads logits_load_ignore_errors logits_load_kd_loss_alpha "
    "logits_load_msc_prefetch_depth logits_load_prefetch_factor logits_save_dtype logits_save_top_k "
    "logits_save_top_p logits_save_top_p_min_k lr_decay_samples lr_warmup_init lr_warmup_samples "
    "lr_wsd_decay_iters lr_wsd_decay_samples lr_wsd_decay_style main_params_dtype mamba_head_dim "
    "mamba_inference_conv_states_dtype mamba_inference_ssm_states_dtype mamba_num_groups mamba_num_heads "
    "mamba_state_dim mamba_training_ssm_states_dtype manual_gc manual_gc_interval mask_factor mask_prob "
    "mask_type max_seqlen_per_dp_cp_rank max_tokens_to_oom megatron_fsdp_main_params_dtype "
    "megatron_fsdp_max_pool_double_buffer memory_snapshot_path merge_file mid_level_dataset_surplus "
    "min_offloaded_tensor_size mlp_chunks_for_prefill mock_data moe_apply_probs_on_input "
    "moe_deepep_num_sms moe_enable_routing_replay moe_flex_dispatcher_num_sms "
    "moe_hybridep_num_blocks_permute moe_hybridep_num_blocks_unpermute moe_hybridep_num_sms "
    "moe_hybridep_num_sms_preprocessing moe_input_jitter_eps moe_mlp_glu_interleave_size "
    "moe_ncclep_static_shape moe_ncclep_zero_copy moe_pad_experts_for_cuda_graph_inference "
    "moe_paged_stash_buffer_size_factor_cpu moe_paged_stash_buffer_size_factor_cuda "
    "moe_paged_stash_page_size moe_per_layer_logging moe_permute_fusion moe_permute_fusion_into_hybridep "
    "moe_router_bias_update_rate moe_router_force_biased moe_router_force_load_balancing "
    "moe_router_score_function "
    "moe_router_fusion moe_router_group_topk moe_router_num_groups moe_router_padding_for_fp8 "
    "moe_router_padding_for_quantization moe_router_pre_softmax moe_router_quantile_balancing_ema "
    "moe_router_topk_limited_devices moe_router_topk_scaling_factor "
    "moe_routing_trace_capture_hidden_states moe_routing_trace_capture_logits "
    "moe_routing_trace_dump_weights moe_routing_trace_max_training_iters "
    "moe_shared_expert_glu_interleave_size moe_token_drop_policy moe_token_dropping "
    "moe_upcycling_granularity mrope_section mscale mscale_all_dim mtp_hybrid_override_pattern "
    "mtp_loss_scaling_factor muon_coefficient_type muon_extra_scale_factor muon_fp32_matmul_prec "
    "muon_momentum muon_nesterov muon_no_split_qkv muon_num_ns_steps muon_scalar_optimizer "
    "muon_scale_mode mup_attn_scale_power mup_base_head_dim mup_base_hidden_size mup_embedding_mult "
    "mup_output_mult mup_width_mult nccl_all_reduce_for_prefill nccl_communicator_config_path "
    "no_async_tensor_model_parallel_allreduce no_bias_dropout_fusion no_bias_swiglu_fusion "
    "no_check_for_nan_in_loss_and_grad no_ckpt_fully_parallel_save "
    "no_ckpt_load_validate_sharding_integrity no_clone_scatter_output_in_embedding "
    "no_contiguous_buffers_in_local_ddp no_data_sharding no_dsa_indexer_rotate_activation "
    "no_dsa_indexer_scoring_relu no_flight_recorder_dump_on_timeout no_flight_recorder_extra_dump_on_exec "
    "no_flight_recorder_include_only_active no_fp8_wgrad no_gradient_accumulation_fusion "
    "no_gradient_reduce_div_fusion no_inference_disable_ep_consensus "
    "no_inference_dynamic_batching_prefix_caching no_inference_text_gen_server_logging "
    "no_inference_use_synchronous_zmq_collectives no_inference_wandb_logging no_initialization "
    "no_load_optim no_load_rng no_log_loss_scale_to_tensorboard no_manual_gc_eval "
    "no_masked_softmax_fusion no_mmap_bin_files no_one_logger no_persist_layer_norm no_pin_cpu_grads "
    "no_pin_cpu_params no_query_key_layer_scaling no_rl_inference_logprobs_is_correction "
    "no_rl_offload_inference_model_weights_when_idle no_rl_partial_rollouts no_rl_persist_cuda_graphs "
    "no_rl_skip_bos_token no_rl_training_cuda_graphs no_rl_use_sequence_packing "
    "no_rl_verify_model_weights_swap no_rope_freq no_rope_fusion no_save_optim no_save_rng "
    "no_scatter_gather_tensors_in_pipeline no_stream_ckpt_dequant no_strict_fsdp_dtensor_load "
    "no_tokenizer_sentencepiece_ignore_extra_whitespaces no_tp_comm_bulk_dgrad no_tp_comm_bulk_wgrad "
    "no_tp_comm_overlap_ag no_tp_comm_overlap_rs no_tp_comm_split_ag no_tp_comm_split_rs "
    "no_use_tokenizer_model_from_checkpoint_args no_weight_decay_cond_type "
    "no_yarn_correction_range_round_to_int non_persistent_ckpt_type non_persistent_global_ckpt_dir "
    "non_persistent_local_ckpt_algo non_persistent_local_ckpt_dir non_persistent_save_interval "
    "null_tokenizer_eod_id null_tokenizer_pad_id num_channels num_classes num_dataset_builder_threads "
    "num_layers_at_end_in_bf16 num_layers_at_start_in_bf16 num_speculative_tokens num_workers nvtx_ranges "
    "object_storage_cache_path offload_modules offload_optimizer_states one_logger_async "
    "one_logger_project one_logger_run_name optimizer_cpu_offload optimizer_cuda_graph "
    "optimizer_offload_fraction output_bert_embeddings overlap_cpu_optimizer_d2h_h2d "
    "overlap_dispatch_backward_with_experts_wgrad overlap_p2p_communication override_ckpt_iteration "
    "override_opt_param_scheduler params_dtype patch_dim per_dataset_sequences_path "
    "per_split_data_args_path perform_initialization pipeline_model_parallel_comm_backend "
    "pretrained_checkpoint profile profile_ranks profile_step_end profile_step_start "
    "pytorch_profiler_collect_callstack pytorch_profiler_collect_chakra pytorch_profiler_collect_shapes "
    "qk_clip_alpha qk_clip_threshold qk_l2_norm query_in_block_prob rank record_memory_history "
    "record_shapes refit_method relative_attention_max_distance relative_attention_num_buckets "
    "replication replication_factor replication_jump reset_attention_mask reset_position_ids "
    "retriever_report_topk_accuracies retriever_score_scaling rl_consumption_granularity "
    "rl_default_temperature rl_default_top_k rl_default_top_p rl_generation_lag "
    "rl_importance_sampling_truncation_coef rl_inference_expert_model_parallel_size "
    "rl_inference_expert_tensor_model_parallel_size rl_inference_logprobs_is_correction "
    "rl_inference_model_unified_memory_level rl_inference_parsers "
    "rl_inference_pipeline_model_parallel_size rl_inference_tensor_model_parallel_size "
    "rl_kv_cache_management_mode rl_offload_inference_model_weights_when_idle "
    "rl_offload_optimizer_during_inference rl_partial_rollouts rl_persist_cuda_graphs rl_profile "
    "rl_profile_dir rl_prompts_per_eval rl_sequence_packing_algo "
    "rl_sequence_packing_max_sequences_per_bin rl_skip_bos_token rl_submission_granularity "
    "rl_training_cuda_graphs rl_use_sequence_packing rl_verify_model_weights_swap rope_scaling_factor "
    "rope_type rotary_interleaved rotary_scaling_factor rotary_seq_len_interpolation_factor "
    "run_workload_inspector_server sample_rate save save_interval save_retain_interval "
    "sft_tokenizer_prompt_format sgd_momentum sharp_enabled_group short_seq_prob split start_weight_decay "
    "straggler_ctrlr_port straggler_minmax_count swin_backbone_type symmetric_ar_type te_rng_tracker "
    "tensorboard_dir tensorboard_log_interval tensorboard_queue_size test_data_path test_mode "
    "throughput_window_size tiktoken_num_special_tokens tiktoken_pattern timing_log_option "
    "titles_data_path tokenizer_hf_no_include_special_tokens tokenizer_hf_no_use_fast tokenizer_library "
    "tokenizer_metadata tokenizer_model tokenizer_sentencepiece_legacy tokenizer_special_tokens "
    "tp_comm_atomic_ag tp_comm_atomic_rs tp_comm_bootstrap_backend tp_comm_overlap_cfg "
    "tp_comm_overlap_rs_dgrad train_data_path train_samples train_sync_interval "
    "transformer_pipeline_model_parallel_size trust_remote_code use_checkpoint_opt_param_scheduler "
    "use_cpu_initialization use_dist_ckpt use_fused_weighted_squared_relu use_grouped_gemm_for_dense_mlp "
    "use_grouped_gemm_for_shared_expert use_kitchen_attention use_legacy_static_engine use_mcore_models "
    "use_mup use_one_sent_docs use_persistent_ckpt_worker use_precision_aware_optimizer "
    "use_pytorch_profiler use_rope_scaling use_same_sampling_seed_across_dp_ranks use_sharp "
    "use_te_activation_func use_te_rng_tracker use_torch_optimizer_for_cpu_offload "
    "use_transformer_engine_op_fuser valid_data_path validation_set_names verify_integrity "
    "vision_backbone_type vision_pretraining vision_pretraining_type vocab_file wandb_entity "
    "wandb_exp_name wandb_project wandb_save_dir weight_decay_incr_style wgrad_deferral_limit "
    "window_attn_skip_freq window_size yarn_beta_fast yarn_beta_slow yarn_correction_range_round_to_int "
    "yarn_original_max_position_embeddings";

constexpr std::string_view k_unmodelled =
    "adlr_autoresume check_weight_hash_across_dp_replicas_interval dataloader_inter_document_masking "
    "ddp_param_name_patterns_for_fp32_local_accumulation decrease_batch_size_if_needed "
    "defer_embedding_wgrad_compute delay_wgrad_compute enable_ft_package enable_full_sharding_in_hsdp "
    "encoder_pipeline_model_parallel_size encoder_tensor_model_parallel_size error_injection_rate "
    "eval_global_batch_size eval_micro_batch_size expert_tensor_parallel_num_weight_shards "
    "fault_injector_fault_types first_last_layers_bf16 fp16_lm_cross_entropy fp32_residual_connection "
    "fp4_format fp4_param_gather fp8_format fp8_param_gather fsdp_manual_registration full_validation "
    "gpu_sniff_test_interval hybrid_context_parallel init_model_with_meta_device inprocess_restart "
    "iterations_to_skip kitchen_config_file kitchen_recipe_number log_energy log_max_attention_logit "
    "log_straggler logits_load_dir logits_save_dir loss_scale "
    "megatron_fsdp_enable_fine_grained_param_gather mla_down_proj_fusion moe_expert_rank_capacity_factor "
    "moe_extended_tp moe_hybridep_pad_uneven_dispatch_inputs moe_paged_stash "
    "moe_routing_trace_path moe_single_grouped_bias moe_single_grouped_weight "
    "moe_use_legacy_grouped_gemm moe_use_upcycling mtp_standalone mtp_use_repeated_layer "
    "multiple_validation_sets phase_transition_iterations pipeline_model_parallel_split_rank qk_clip "
    "rampup_batch_size result_rejected_tracker_filename retro_add_retriever "
    "reuse_grad_buf_for_mxfp8_param_ag save_activations_interval save_dgrads_interval "
    "save_params_interval save_tokens_per_expert_interval save_wgrads_interval sft spec "
    "standalone_embedding_stage start_eval_at_iter suggested_communication_unit_size "
    "te_precision_config_file tensor_parallel_num_weight_shards torch_fsdp2_no_reshard_after_forward "
    "use_checkpoint_args use_legacy_models use_mp_args_from_checkpoint_args use_nccl_ub vocab_extra_ids";

constexpr std::array<NeutralArgument, 6> k_neutral = {{
    {"outer_dp_sharding_strategy", "no_shard"},
    {"softmax_type", "vanilla"},
    {"megatron_fsdp_grad_comm_dtype", "auto"},
    {"megatron_fsdp_main_grads_dtype", "auto"},
    {"mlp_chunks_for_training", "1"},
    {"muon_tp_mode", "blockwise"},
}};

constexpr std::string_view k_no_rules = "has no rules here; leave it out";
constexpr std::string_view k_other_model = "describes another model than a GPT, which has no rules here";
constexpr std::array<RefusedArgument, 17> k_refused = {{
    {"use_ring_exchange_p2p", k_no_rules},
    {"attention_output_gate", k_no_rules},
    {"experimental_attention_variant", k_no_rules},
    {"is_hybrid_model", k_other_model},
    {"hybrid_layer_pattern", k_other_model},
    {"hybrid_override_pattern", k_other_model},
    {"heterogeneous_layers_config_path", k_other_model},
    {"heterogeneous_layers_config_encoded_json", k_other_model},
    {"perform_rl_step", "trains by reinforcement, which has no rules here"},
    {"step_batch_size_schedule", "changes the batch on the way; give global-batch-size instead"},
    {"freeze_all_layers", k_no_rules},
    {"skip_train", "trains nothing; leave it out"},
    {"yaml_cfg", "names a file with all settings; give that file instead"},
    {"batch_size", "is no longer valid; give micro-batch-size"},
    {"model_parallel_size", "is no longer valid; give tensor-model-parallel-size"},
    {"warmup", "is no longer valid; give lr-warmup-fraction"},
    {"checkpoint_activations", "is no longer valid; give recompute-granularity and recompute-method"},
}};

constexpr std::string_view k_flags =
    "account_for_embedding_in_pipeline_split account_for_loss_in_pipeline_split "
    "accumulate_allreduce_grads_in_fp32 add_qkv_bias adlr_autoresume allow_ambiguous_pad_tokens "
    "apply_layernorm_1p apply_query_key_layer_scaling apply_residual_connection_post_layernorm "
    "apply_wd_to_qk_layernorm async_ckpt_use_cpu_shm async_save attention_output_gate "
    "attention_softmax_in_fp32 auto_detect_ckpt_format batch_invariant_mode bert_no_binary_head bf16 "
    "biencoder_shared_query_context_model cache_mla_latents calc_ft_timeouts calculate_per_token_loss "
    "check_for_large_grads check_for_spiky_loss checkpoint_activations ckpt_assume_constant_structure "
    "ckpt_convert_update_legacy_dist_opt_format ckpt_fully_parallel_load ckpt_fully_parallel_save "
    "cpu_offloading_retain_pinned_cpu_buffers create_all_gather_group cross_entropy_loss_fusion "
    "data_parallel_random_init dataloader_defer_npy_index_mmap dataloader_fast_cache_load "
    "dataloader_inter_document_masking ddp_average_in_collective ddp_pad_buckets_for_high_nccl_busbw "
    "ddp_reduce_scatter_with_fp32_accumulation decode_only_cuda_graphs decrease_batch_size_if_needed "
    "defer_embedding_wgrad_compute delay_offload_until_cuda_graph delay_param_gather delay_wgrad_compute "
    "deterministic_mode dino_norm_last_layer disable_bf16_reduced_precision_matmul disable_bias_linear "
    "disable_gloo_process_groups disable_jit_fuser disable_mamba_mem_eff_path disable_msc "
    "disable_straggler_on_startup disable_symmetric_registration dist_ckpt_optim_fully_reshardable "
    "dist_ckpt_save_pre_mcore_014 distrib_optim_fully_reshardable_mem_efficient "
    "distribute_saved_activations dsa_indexer_k_norm_fp32 dsa_indexer_rope_interleaved "
    "dsa_indexer_use_sparse_loss enable_chunked_prefill enable_cuda_graph enable_experimental "
    "enable_ft_package enable_full_sharding_in_hsdp enable_msc eod_mask_loss "
    "ep_overlap_early_attn_memory_release exit_on_missing_checkpoint exit_signal_handler "
    "exit_signal_handler_for_dataloader exit_signal_handler_for_training external_cuda_graph "
    "fake_process_group fim_data fine_grained_activation_offloading finetune first_last_layers_bf16 "
    "flash_decode flight_recorder_include_stack_trace fp16 fp16_lm_cross_entropy fp32_residual_connection "
    "fp4_param_gather fp8_output_proj fp8_param_gather freeze_all_layers "
    "fsdp_db_use_persist_buf_on_alloc_fail fsdp_double_buffer fsdp_manual_registration full_validation "
    "fused_residual_rmsnorm grad_reduce_in_bf16 group_query_attention grpo_filter_groups_with_same_reward "
    "high_priority_a2a_comm_stream hybrid_context_parallel inference_cuda_graph_all_prefills "
    "inference_disable_ep_consensus inference_disable_triton_nvls_kernels inference_dynamic_batching "
    "inference_dynamic_batching_prefix_caching inference_dynamic_batching_track_generated_token_events "
    "inference_dynamic_batching_track_paused_request_events inference_fuse_tp_communication "
    "inference_moe_disable_fused_quant_kernels inference_rng_tracker inference_text_gen_server_logging "
    "inference_use_synchronous_zmq_collectives inference_wandb_logging init_method_xavier_uniform "
    "init_model_with_meta_device inprocess_empty_cuda_cache inprocess_restart is_hybrid_model "
    "keep_fp8_transpose_cache lazy_mpu_init load_main_params_from_ckpt log_batch_size_to_tensorboard "
    "log_device_memory_used log_energy log_learning_rate_to_tensorboard log_max_attention_logit "
    "log_memory_to_tensorboard log_num_zeros_in_grad log_params_norm log_progress log_straggler "
    "log_throughput log_timers_to_tensorboard log_validation_ppl_to_tensorboard "
    "log_world_size_to_tensorboard logits_load_ignore_errors manual_gc "
    "megatron_fsdp_enable_fine_grained_param_gather megatron_fsdp_max_pool_double_buffer "
    "mla_down_proj_fusion mock_data moe_apply_probs_on_input moe_enable_deepep moe_enable_routing_replay "
    "moe_extended_tp moe_grouped_gemm moe_hybridep_pad_uneven_dispatch_inputs moe_layer_recompute "
    "moe_ncclep_static_shape moe_ncclep_zero_copy moe_pad_expert_input_to_capacity "
    "moe_pad_experts_for_cuda_graph_inference moe_paged_stash moe_per_layer_logging moe_permute_fusion "
    "moe_permute_fusion_into_hybridep moe_router_enable_expert_bias moe_router_force_load_balancing "
    "moe_router_fusion moe_router_padding_for_fp8 moe_router_padding_for_quantization "
    "moe_router_pre_softmax moe_routing_trace_capture_hidden_states moe_routing_trace_capture_logits "
    "moe_routing_trace_dump_weights moe_shared_expert_gate moe_shared_expert_overlap "
    "moe_single_grouped_bias moe_single_grouped_weight moe_use_legacy_grouped_gemm moe_use_upcycling "
    "mtp_detach_heads mtp_standalone mtp_use_repeated_layer multi_latent_attention "
    "multiple_validation_sets muon_nesterov muon_no_split_qkv nccl_all_reduce_for_prefill "
    "no_align_grad_reduce no_align_param_gather no_async_tensor_model_parallel_allreduce "
    "no_barrier_with_level_1_timing no_bias_dropout_fusion no_bias_gelu_fusion no_bias_swiglu_fusion "
    "no_check_for_nan_in_loss_and_grad no_ckpt_fully_parallel_save "
    "no_ckpt_load_validate_sharding_integrity no_clone_scatter_output_in_embedding "
    "no_create_attention_mask_in_dataloader no_data_sharding no_delay_grad_reduce "
    "no_dsa_indexer_rotate_activation no_dsa_indexer_scoring_relu no_flight_recorder_dump_on_timeout "
    "no_flight_recorder_extra_dump_on_exec no_flight_recorder_include_only_active no_fp8_wgrad "
    "no_gradient_accumulation_fusion no_gradient_reduce_div_fusion no_inference_disable_ep_consensus "
    "no_inference_dynamic_batching_prefix_caching no_inference_text_gen_server_logging "
    "no_inference_use_synchronous_zmq_collectives no_inference_wandb_logging no_initialization "
    "no_load_optim no_load_rng no_log_loss_scale_to_tensorboard no_manual_gc_eval "
    "no_masked_softmax_fusion no_mmap_bin_files no_one_logger no_overlap_p2p_communication "
    "no_pad_vocab_size no_persist_layer_norm no_pin_cpu_grads no_pin_cpu_params no_position_embedding "
    "no_query_key_layer_scaling no_rl_inference_logprobs_is_correction "
    "no_rl_offload_inference_model_weights_when_idle no_rl_partial_rollouts no_rl_persist_cuda_graphs "
    "no_rl_skip_bos_token no_rl_training_cuda_graphs no_rl_use_sequence_packing "
    "no_rl_verify_model_weights_swap no_rope_fusion no_save_optim no_save_rng no_stream_ckpt_dequant "
    "no_strict_fsdp_dtensor_load no_tokenizer_sentencepiece_ignore_extra_whitespaces "
    "no_tp_comm_bulk_dgrad no_tp_comm_bulk_wgrad no_tp_comm_overlap_ag no_tp_comm_overlap_rs "
    "no_tp_comm_split_ag no_tp_comm_split_rs no_use_layer_wise_param_layout "
    "no_use_tokenizer_model_from_checkpoint_args no_yarn_correction_range_round_to_int nvtx_ranges "
    "offload_optimizer_states one_logger_async openai_gelu optimizer_cpu_offload optimizer_cuda_graph "
    "output_bert_embeddings overlap_cpu_optimizer_d2h_h2d overlap_dispatch_backward_with_experts_wgrad "
    "overlap_grad_reduce overlap_moe_expert_parallel_comm overlap_p2p_communication_warmup_flush "
    "overlap_param_gather overlap_param_gather_with_optimizer_step override_opt_param_scheduler "
    "perform_rl_step profile pytorch_profiler_collect_callstack pytorch_profiler_collect_chakra "
    "pytorch_profiler_collect_shapes qk_clip qk_l2_norm qk_layernorm quick_geglu recompute_activations "
    "record_memory_history record_shapes replication reset_attention_mask reset_position_ids "
    "retriever_score_scaling reuse_grad_buf_for_mxfp8_param_ag rl_inference_logprobs_is_correction "
    "rl_offload_inference_model_weights_when_idle rl_offload_optimizer_during_inference "
    "rl_partial_rollouts rl_persist_cuda_graphs rl_profile rl_skip_bos_token rl_training_cuda_graphs "
    "rl_use_sequence_packing rl_verify_model_weights_swap rotary_interleaved "
    "run_workload_inspector_server sequence_parallel sft skip_train squared_relu "
    "standalone_embedding_stage swiglu te_rng_tracker test_mode tokenizer_hf_no_include_special_tokens "
    "tokenizer_hf_no_use_fast tokenizer_sentencepiece_legacy torch_fsdp2_no_reshard_after_forward "
    "tp_comm_overlap tp_comm_overlap_rs_dgrad trust_remote_code untie_embeddings_and_output_weights "
    "use_checkpoint_args use_checkpoint_opt_param_scheduler use_cpu_initialization use_custom_fsdp "
    "use_dist_ckpt use_distributed_optimizer use_flash_attn use_fused_weighted_squared_relu "
    "use_grouped_gemm_for_dense_mlp use_grouped_gemm_for_shared_expert use_kitchen_attention "
    "use_legacy_models use_legacy_static_engine use_mcore_models use_megatron_fsdp "
    "use_mp_args_from_checkpoint_args use_mup use_nccl_ub use_one_sent_docs use_persistent_ckpt_worker "
    "use_precision_aware_optimizer use_pytorch_profiler use_ring_exchange_p2p use_rope_scaling "
    "use_rotary_position_embeddings use_same_sampling_seed_across_dp_ranks use_sharp "
    "use_te_activation_func use_torch_fsdp2 use_torch_optimizer_for_cpu_offload use_tp_pp_dp_mapping "
    "use_transformer_engine_op_fuser variable_seq_lengths verify_integrity vision_pretraining "
    "yarn_correction_range_round_to_int";

constexpr std::string_view k_disable = "disable_";  // what arguments of 0.19 write for no_ too

/// Another name of an argument, and whether it says the opposite.
struct OtherName {
  std::string_view name;
  std::string_view today;
  bool is_opposite = false;
};
constexpr std::array k_other_names = {
    OtherName{"layernorm_epsilon", "norm_epsilon"},
    OtherName{"persistent_save_interval", "save_interval"},
    OtherName{"use_custom_fsdp", "use_megatron_fsdp"},
    OtherName{"delay_param_gather", "no_align_param_gather", true},
    OtherName{"delay_grad_reduce", "no_align_grad_reduce", true},
    OtherName{"no_delay_grad_reduce", "no_align_grad_reduce"},
    OtherName{"no_delay_param_gather", "no_align_param_gather"},
    OtherName{"hybrid_cp", "hybrid_context_parallel"},
    // Fields of configuration objects.
    OtherName{"num_moe_experts", "num_experts"},
    OtherName{"virtual_pipeline_model_parallel_size", "num_virtual_stages_per_pipeline_rank"},
    OtherName{"num_layers_in_first_pipeline_stage", "decoder_first_pipeline_num_layers"},
    OtherName{"num_layers_in_last_pipeline_stage", "decoder_last_pipeline_num_layers"},
    OtherName{"microbatch_group_size_per_vp_stage", "microbatch_group_size_per_virtual_pipeline_stage"},
    OtherName{"overlap_p2p_comm", "no_overlap_p2p_communication", true},
    OtherName{"overlap_p2p_comm_warmup_flush", "overlap_p2p_communication_warmup_flush"},
    OtherName{"add_bias_linear", "disable_bias_linear", true},
    OtherName{"layernorm_zero_centered_gamma", "apply_layernorm_1p"},
    OtherName{"share_embeddings_and_output_weights", "untie_embeddings_and_output_weights", true},
    OtherName{"fp8", "fp8_format"},
    OtherName{"fp8_param", "fp8_param_gather"},
    OtherName{"fp4", "fp4_format"},
    OtherName{"fp4_param", "fp4_param_gather"},
    OtherName{"apply_rope_fusion", "no_rope_fusion", true},
    OtherName{"perform_initialization", "no_initialization", true},
    OtherName{"barrier_with_L1_time", "no_barrier_with_level_1_timing", true},
    OtherName{"use_gloo_process_groups", "disable_gloo_process_groups", true},
    OtherName{"nccl_ub", "use_nccl_ub"},
    OtherName{"grad_reduce_in_fp32", "accumulate_allreduce_grads_in_fp32"},
    OtherName{"bucket_size", "ddp_bucket_size"},
    OtherName{"average_in_collective", "ddp_average_in_collective"},
    OtherName{"pad_buckets_for_high_nccl_busbw", "ddp_pad_buckets_for_high_nccl_busbw"},
    OtherName{"reduce_scatter_with_fp32_accumulation", "ddp_reduce_scatter_with_fp32_accumulation"},
    OtherName{"param_name_patterns_for_fp32_local_accumulation",
              "ddp_param_name_patterns_for_fp32_local_accumulation"},
    OtherName{"torch_fsdp2_reshard_after_forward", "torch_fsdp2_no_reshard_after_forward", true},
    OtherName{"should_pad_vocab", "no_pad_vocab_size", true},
    OtherName{"use_nsys_profiler", "profile"},
    OtherName{"bert_binary_head", "bert_no_binary_head", true},
    OtherName{"muon_split_qkv", "muon_no_split_qkv", true},
    OtherName{"enable_one_logger", "no_one_logger", true},
    OtherName{"use_te_rng_tracker", "te_rng_tracker"},
    OtherName{"fully_parallel_save", "no_ckpt_fully_parallel_save", true},
    OtherName{"fully_parallel_load", "ckpt_fully_parallel_load"},
    OtherName{"metadata_path", "tokenizer_metadata"},
    OtherName{"special_tokens", "tokenizer_special_tokens"},
    OtherName{"check_for_nan_in_grad", "no_check_for_nan_in_loss_and_grad", true},
    OtherName{"use_mamba_mem_eff_path", "disable_mamba_mem_eff_path", true},
};

/// The other name that a key is; today's name is the key itself if it is none.
OtherName todays_name(std::string_view key) {
  const auto* const found = std::find_if(k_other_names.begin(), k_other_names.end(),
                                         [&](const OtherName& one) { return one.name == key; });
  return found == k_other_names.end() ? OtherName{key, key} : *found;
}

void turn_around(ConfigNode& value) {
  if (const Result<bool> is_on = as_boolean(value)) {
    value.text = *is_on ? "false" : "true";
  }
}

void use_todays_name(std::string& key, ConfigNode& value) {
  if (key.starts_with("__")) {  // hyphens of an argument
    key.erase(0, 2);
  }
  const OtherName other = todays_name(key);
  if (other.today != key) {
    key = other.today;
    if (other.is_opposite) {
      turn_around(value);
    }
    return;
  }
  const bool is_known = is_one_of(key, k_flags) || is_one_of(key, k_inert);
  if (!is_known && key.starts_with(k_disable) && takes_no_value(key)) {
    key = fmt::format("no_{}", key.substr(k_disable.size()));
  } else if (const std::string off = "no_" + key; !is_known && is_one_of(off, k_flags)) {
    key = off;
    turn_around(value);
  }
}

}  // namespace

std::string_view inert_arguments() { return k_inert; }
std::string_view unmodelled_arguments() { return k_unmodelled; }
std::span<const NeutralArgument> neutral_arguments() { return k_neutral; }
std::span<const RefusedArgument> refused_arguments() { return k_refused; }

bool takes_no_value(std::string_view argument) {
  const bool is_twin = argument.starts_with(k_disable);
  return is_one_of(argument, k_flags) ||
         (is_twin && is_one_of(fmt::format("no_{}", argument.substr(k_disable.size())), k_flags));
}

bool is_inert(std::string_view argument) {
  std::string key(argument);
  ConfigNode unused;
  use_todays_name(key, unused);
  return is_one_of(key, k_inert);
}

void use_todays_names(ConfigNode& map) {
  use_underscores(map);
  for (std::size_t index = 0; index < map.keys.size(); ++index) {
    use_todays_name(map.keys[index], map.items[index]);
  }
}

}  // namespace commlens::megatron
