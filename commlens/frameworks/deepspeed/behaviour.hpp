#pragma once
#include <cstdint>
#include <vector>

#include "commlens/model/job.hpp"
#include "commlens/model/version.hpp"

namespace commlens::deepspeed {

/// What DeepSpeed's releases do differently, from 0.14.0 on. Each field has the place in the release that
/// changed it, below deepspeed/ of the package; docs/frameworks/deepspeed.md has the values and the recorded
/// runs that prove them.
struct Behaviour {
  KnownVersion version;

  /// Start broadcasts send a parameter's bytes, else its elements. runtime/engine.py:2052 of 0.19.8.
  bool broadcasts_bytes = true;
  /// Of a job that names none. runtime/constants.py of 0.19.3, GRADIENT_CLIPPING_DEFAULT.
  double gradient_clipping = 1.0;

  /// Which 16-bit jobs BF16_Optimizer trains, with an all_gather of what it updates: bf16 at stage 0, and at
  /// stage 1 where gradients are summed in fp32; those with a pipeline and those of stage 1; none.
  /// runtime/engine.py of 0.17.6, :2279 of 0.18.5.
  enum class Bf16Optimizer : std::uint8_t { all, none, pipeline_or_stage1 };
  Bf16Optimizer bf16_optimizer = Bf16Optimizer::pipeline_or_stage1;
  /// BF16_Optimizer sums gradients in fp32 where the job names no grad_accum_dtype. runtime/engine.py of
  /// 0.17.6.
  bool sums_bf16_in_fp32 = false;
  /// bf16 without ZeRO, summed in fp32, is refused. runtime/engine.py:2279 of 0.18.5.
  bool refuses_bf16_summed_in_fp32 = true;
  /// bf16 at stages 1 and 2: the overflow flag of a job that names no check_grad_overflow.
  /// runtime/precision_config.py:56 of 0.19.3.
  bool checks_bf16_overflow = true;
  /// Stage 1 sends its overflow flag to the data ranks. runtime/zero/stage_1_and_2.py of 0.17.1, of 0.18.0.
  bool stage1_sends_overflow_flag = true;
  /// reduce_scatter: false. What a flush reduces: the whole buffer; what fills it, also nothing; what fills
  /// it, unless nothing does. runtime/zero/stage_1_and_2.py of 0.14.1, of 0.14.5.
  enum class Flush : std::uint8_t { buffer, fill, fill_if_any };
  Flush flush_without_scatter = Flush::fill_if_any;
  /// torch_autocast, stages 1 and 2: a full bucket of one dtype is flushed alone, else with those of others.
  /// runtime/zero/stage_1_and_2.py:1204 of 0.18.5.
  bool flushes_one_dtype = true;
  /// Of a linear of a model that is not built under zero.Init, stage 3 reduces the weight before the bias.
  /// runtime/zero/partition_parameters.py:412 of 0.19.4.
  bool reduces_weight_first = true;

  /// The trace of modules is checked at the start of each forward pass, evaluation's too, else at the end of
  /// the first backward pass. runtime/zero/partitioned_param_coordinator.py:251 of 0.15.4.
  bool checks_trace_at_forward = true;
  /// A broadcast of its length precedes each list of a trace. runtime/zero/utils.py:73 of 0.17.6.
  bool sends_trace_lengths = true;
  /// The count of available parameters, which limits what is prefetched, starts anew with each optimizer
  /// step, else where the trace is checked. partitioned_param_coordinator.py of 0.16.0, of 0.16.8.
  bool counts_from_step = false;
  /// Parameters that no hook releases are released after the backward pass, and frozen ones that are computed
  /// again with the module whose pass that is. runtime/zero/stage3.py:2793 of 0.19.3.
  bool releases_leftovers = true;
  /// The norm of shards that are spread over model-parallel ranks too is added over these once more.
  /// runtime/zero/stage3.py:694 of 0.19.8.
  bool adds_spread_norms_again = false;

  /// The first activation is described in one message of 1,024 B. runtime/pipe/engine.py:956 of 0.15.0.
  bool describes_in_one_message = true;
  /// Saving a checkpoint: every data rank has a barrier of its own. runtime/engine.py of 0.17.1.
  bool has_barriers_of_data_ranks = false;
  /// drop_tokens: false. The capacity is agreed on by the expert-parallel ranks, else by all.
  /// moe/sharded_moe.py of 0.14.1.
  bool agrees_on_capacity_in_expert_group = true;
  /// Tokens are dropped and gathered by tensor ranks that share experts too. moe/sharded_moe.py of 0.14.5.
  bool drops_tokens_of_split_experts = true;
  /// tp_model_init broadcasts the state of the random numbers. runtime/tensor_parallel/tp_manager.py of
  /// 0.18.6.
  bool broadcasts_random_state = false;

  // Settings that a release does not have yet.
  bool has_additional_losses = true;         // runtime/pipe/module.py of 0.14.1
  bool has_all_reduce_fetch = true;          // stage3_use_all_reduce_for_fetch_params, 0.14.3
  bool has_dynamic_shape = true;             // runtime/pipe/module.py of 0.15.0
  bool has_sequence_mesh = true;             // sequence_parallel_size, 0.15.0
  bool has_granularity = true;               // stage3_module_granularity_threshold, 0.16.0
  bool has_auto_tp = true;                   // tensor_parallel.autotp_size, 0.16.4
  bool has_sequence_of_transformers = true;  // UlyssesSPAttentionHF and its data loader, 0.17.0
  bool has_bf16_overflow_check = true;       // bf16.check_grad_overflow, 0.17.1
  bool has_autocast = true;                  // torch_autocast, 0.17.2
  bool has_large_autocast = true;            // of parameters larger than a bucket, stage_1_and_2.py of 0.18.2
  bool has_sanity_checks = true;             // zero_optimization.enable_sanity_checks, 0.17.6
  bool has_leaf_modules = true;              // zero_optimization.leaf_module, 0.18.0
  bool has_sequential_gather = true;         // stage3_allgather_sequential, 0.18.5
  bool has_gathered_check = true;            // GatheredParameters compares what it gathered, 0.18.7
  bool shards_over_all = true;               // other ranks than the data ranks, stage3.py:594 of 0.19.3
  bool shards_experts = true;                // expert_parallel under ZeRO-3, 0.19.3
  bool has_auto_ep = true;                   // expert_parallel, 0.19.2
  bool has_coalescing = true;                // engine.coalesce_grad_reduction, 0.19.2
  bool records_again = true;  // a trace after another one, partitioned_param_coordinator.py of 0.19.2
  bool has_unmanaged_accumulation = true;  // managed_gradient_accumulation, 0.19.4
  bool has_norm_switch = true;             // compute_grad_norm and parameter_alignment, 0.19.7
  bool has_dual_pipe = true;               // runtime/pipe/dualpipev.py of 0.19.8

  // Keys that a release still takes, also switched off; runtime/config.py, _REMOVED_TOP_LEVEL_CONFIG_KEYS.
  bool takes_compression = false;  // of compression, sparse attention and MiCS, up to 0.19.6
  bool takes_elasticity = false;   // of elasticity, amp, sparse gradients, LoCo and others, up to 0.19.7
};

/// Of the job's release, or of the DeepSpeed that its client runs on: the newest known one that is not newer.
const Behaviour& behaviour(const Job& job);
/// The releases, in ascending order.
std::vector<KnownVersion> known_versions();

}  // namespace commlens::deepspeed
