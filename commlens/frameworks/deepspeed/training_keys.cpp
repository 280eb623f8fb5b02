// Lists what a training does with every key of its configurations.
#include "commlens/frameworks/training_keys.hpp"

#include <array>

#include "commlens/frameworks/deepspeed/reader.hpp"

namespace commlens::deepspeed {
namespace {

// DeepSpeed 0.14.0 runtime/config.py and runtime/constants.py; keys of sections as section.key
constexpr std::string_view k_honoured =
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

constexpr std::string_view k_irrelevant =
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
    "zero_optimization.allgather_partitions zero_optimization.allgather_sequential "
    "zero_optimization.compute_grad_norm zero_optimization.contiguous_gradients "
    "zero_optimization.enable_sanity_checks zero_optimization.fast_sharding_for_leaf_module "
    "zero_optimization.gradient_allreduce_op zero_optimization.leaf_module "
    "zero_optimization.module_granularity_threshold zero_optimization.parameter_alignment "
    "zero_optimization.stage3_allgather_sequential zero_optimization.stage3_module_granularity_threshold "
    "zero_optimization.stage3_use_all_reduce_for_fetch_params "
    "zero_optimization.use_all_reduce_for_fetch_params "
    "managed_gradient_accumulation bf16.check_grad_overflow "
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

constexpr std::string_view k_refused =
    "expert_parallel torch_autocast amp autotuning compile compression_training curriculum_learning "
    "data_efficiency data_parallel_size "
    "disable_allgather eigenvalue elasticity fp16.fp16_master_weights_and_grads hybrid_engine "
    "pipeline.activation_checkpoint_interval progressive_layer_drop quantize_training "
    "sequence_parallel_size sparse_gradients tensor_parallel weight_quantization "
    "zero_optimization.cpu_offload_params zero_optimization.mics_shard_size "
    "zero_optimization.zenflow zero_optimization.zero_quantized_nontrainable_weights "
    "zero_optimization.zeropp_loco_param";

constexpr std::array<UnhonouredKey, 9> k_warned = {{
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

constexpr TrainingKeys k_keys{k_honoured, k_irrelevant, k_refused, k_warned};

}  // namespace

const TrainingKeys& training_keys() { return k_keys; }

}  // namespace commlens::deepspeed
