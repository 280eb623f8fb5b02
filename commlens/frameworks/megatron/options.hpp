#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "commlens/model/job.hpp"

namespace commlens::megatron {

/// The framework as the command line and files name it.
inline constexpr std::string_view k_name = "megatron";

/// How Megatron's own FSDP shards (data-parallel-sharding-strategy).
enum class Sharding : std::uint8_t { no_shard, optim, optim_grads, optim_grads_params };
/// How the cross entropy is computed: torch operators, Megatron's fused ones, Transformer Engine's kernel.
enum class CrossEntropy : std::uint8_t { unfused, native, transformer_engine };

/// Megatron's own settings, by topic, each with its argument. The distributed optimizer is its name for ZeRO
/// stage 1 (TrainConfig::zero_stage), distribute-saved-activations for partitioned activations. What older
/// releases lack is in `Behaviour::brings`.
struct Options {
  // What runs.
  bool is_script = false;  // pretrain_gpt.py: bf16 switches gradients_in_fp32 on (arguments.py)
  /// A loop of its own over GPTModel, schedules and optimizer: no messages of megatron.training (`driver:
  /// core` of a case file).
  bool is_core_loop = false;
  bool is_transformer_engine = true;  // transformer-impl transformer_engine, else local

  // Model.
  std::vector<bool> moe_layers;                        // moe-layer-freq; empty: every layer is a mixture
  std::int64_t shared_expert_hidden = 0;               // moe-shared-expert-intermediate-size
  std::int64_t mtp_layers = 0;                         // mtp-num-layers
  bool mtp_detaches_heads = false;                     // mtp-detach-heads
  std::int64_t moe_latent_hidden = 0;                  // moe-latent-size
  CrossEntropy cross_entropy = CrossEntropy::unfused;  // cross-entropy-loss-fusion, cross-entropy-fusion-impl

  // Layout.
  std::int64_t expert_tp = 0;              // expert-tensor-parallel-size; 0: as tensor-model-parallel-size
  std::int64_t instances = 1;              // num-distributed-optimizer-instances
  std::string stage_layout;                // pipeline-model-parallel-layout
  std::int64_t layers_of_first_stage = 0;  // decoder-first-pipeline-num-layers; 0: as the others
  std::int64_t layers_of_last_stage = 0;   // decoder-last-pipeline-num-layers
  bool embedding_counts_as_layer = false;  // account-for-embedding-in-pipeline-split
  bool loss_counts_as_layer = false;       // account-for-loss-in-pipeline-split
  std::int64_t micro_batch_group = 0;      // microbatch-group-size-per-virtual-pipeline-stage; 0: stages
  bool overlaps_p2p = true;                // overlap-p2p-communication, of virtual stages
  bool overlaps_p2p_at_ends = false;       // overlap-p2p-communication-warmup-flush
  bool overlaps_expert_exchange = false;   // overlap-moe-expert-parallel-comm
  bool variable_seq_lengths = false;
  std::vector<std::string> cp_comm_types;     // cp-comm-type; one, or one per layer; empty: p2p
  std::vector<std::int64_t> hierarchical_cp;  // hierarchical-context-parallel-sizes
  bool overlaps_tp = false;                   // tp-comm-overlap

  // Recomputation.
  std::string recompute_method = "uniform";  // of full recomputation: uniform or block
  std::int64_t recompute_num_layers = 1;
  std::vector<std::string> recompute_modules = {"core_attn"};  // of selective recomputation

  // Gradients, parameters, optimizer.
  bool gradients_in_fp32 = false;  // accumulate-allreduce-grads-in-fp32
  bool gradients_in_bf16 = false;  // grad-reduce-in-bf16, main-grads-dtype bf16
  bool overlap_grad_reduce = false;
  bool aligns_grad_reduce = true;  // (no-)align-grad-reduce, delay-grad-reduce
  bool overlap_param_gather = false;
  bool aligns_param_gather = true;      // (no-)align-param-gather, of virtual stages
  bool gathers_with_step = false;       // overlap-param-gather-with-optimizer-step
  std::int64_t bucket_size = 0;         // ddp-bucket-size, elements; 0: max(40e6, 1e6 x data ranks)
  std::int64_t buckets = 0;             // ddp-num-buckets
  bool pads_buckets = false;            // ddp-pad-buckets-for-high-nccl-busbw
  bool averages_in_collective = false;  // ddp-average-in-collective
  bool scatters_by_all_to_all = false;  // ddp-reduce-scatter-with-fp32-accumulation
  bool broadcasts_parameters = false;   // data-parallel-random-init
  bool is_muon = false;                 // optimizer muon (dist_muon)
  bool has_layer_wise_layout = true;    // (no-)use-layer-wise-param-layout
  bool is_megatron_fsdp = false;        // use-megatron-fsdp, use-custom-fsdp
  Sharding sharding = Sharding::no_shard;
  bool is_torch_fsdp2 = false;  // use-torch-fsdp2
  bool counts_tokens = false;   // calculate-per-token-loss

  // Mixture of experts.
  std::string moe_dispatcher = "allgather";            // moe-token-dispatcher-type: allgather, alltoall, flex
  std::string flex_backend = "deepep";                 // moe-flex-dispatcher-backend
  std::vector<std::string> balancing = {"aux_loss"};   // moe-router-load-balancing-type
  std::vector<double> balancing_coefficients = {0.0};  // moe-aux-loss-coeff
  bool has_z_loss = false;                             // moe-z-loss-coeff, 0 too
  bool has_sigmoid_scores = false;                     // moe-router-score-function sigmoid
  bool has_expert_bias = false;                        // moe-router-enable-expert-bias
  DType router_dtype = DType::uint8;                   // moe-router-dtype: fp32, fp64; uint8: as the model
  double expert_capacity = 0;                          // moe-expert-capacity-factor; 0: none
  bool pads_to_capacity = false;                       // moe-pad-expert-input-to-capacity
  bool groups_experts = false;                         // moe-grouped-gemm
  bool has_shared_expert_gate = false;                 // moe-shared-expert-gate
  bool overlaps_shared_expert = false;                 // moe-shared-expert-overlap

  // The training loop.
  bool has_attention_mask = true;  // (no-)create-attention-mask-in-dataloader
  std::string rerun_mode;          // rerun-mode: disabled, validate_results, report_stats; empty: the default
  std::int64_t log_interval = 100;
  int timing_level = 0;                // timing-log-level
  bool writes_timers = false;          // log-timers-to-tensorboard
  std::int64_t save_interval = 0;      // save-interval with save; 0: none is saved within the job
  bool barriers_at_level1 = true;      // (no-)barrier-with-level-1-timing
  bool logs_params_norm = false;       // log-params-norm
  bool logs_zeros = false;             // log-num-zeros-in-grad
  bool handles_signals = false;        // exit-signal-handler
  std::int64_t exit_minutes = 0;       // exit-duration-in-mins
  std::int64_t eval_interval = 0;      // 0: no evaluation within the job
  std::int64_t eval_iterations = 100;  // eval-iters
};

inline const Options& options(const Job& job) { return job.options.of<Options>(); }
inline Options& options(Job& job) { return job.options.edit<Options>(); }

}  // namespace commlens::megatron
