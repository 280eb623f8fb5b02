// Lists what a training does with every key of its configurations.
#include "commlens/frameworks/training_keys.hpp"

#include <array>

#include "commlens/frameworks/neox/reader.hpp"

namespace commlens::neox {
namespace {

// gpt-neox 4bc66703 megatron/neox_arguments/neox_args.py
constexpr std::string_view k_honoured =
    "activation attention_config bias_gelu_fusion checkpoint_activations deepspeed_extra_args "
    "feedforward_size gpt_j_residual hidden_size init_method init_method_std intermediate_size "
    "layernorm_epsilon lr_decay_fraction lr_decay_iters lr_decay_style make_vocab_size_divisible_by "
    "max_position_embeddings min_lr model_parallel_size no_weight_tying norm num_attention_heads "
    "num_layers onnx_safe output_layer_init_method padded_vocab_size partition_activations "
    "pipe_parallel_size pos_emb precision rotary_emb_base rotary_pct seed seq_length sequence_parallel "
    "tokenizer_type train_iters use_bias_in_norms vocab_file warmup weight_decay";

constexpr std::string_view k_irrelevant =
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

constexpr std::string_view k_refused =
    "bf16_lm_cross_entropy context_parallel_size coord_check deepscale gpt_j_tied "
    "log_gradient_noise_scale mlp_type model_arch moe_expert_parallel_size moe_num_experts "
    "num_encoder_layers num_kv_heads num_unique_layers opt_pos_emb_offset output_layer_parallelism "
    "soft_prompt_tuning te_columnparallel te_fp8_mha te_layernorm_mlp te_mha te_rowparallel train_impl "
    "use_bias_in_attn_linear use_bias_in_mlp use_qk_layernorm use_tutel";

constexpr std::array<UnhonouredKey, 16> k_warned = {{
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

constexpr TrainingKeys k_keys{k_honoured, k_irrelevant, k_refused, k_warned};

}  // namespace

const TrainingKeys& training_keys() { return k_keys; }

}  // namespace commlens::neox
