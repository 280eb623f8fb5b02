#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "commlens/base/dtype.hpp"
#include "commlens/base/units.hpp"

namespace commlens {

enum class Recompute : std::uint8_t { none, selective, full };
/// Attention scores kept for backward, or one fused kernel that computes them again (FlashAttention, SDPA).
enum class Attention : std::uint8_t { eager, flash };
enum class Schedule : std::uint8_t { gpipe, one_f_one_b, interleaved };

/// How an iteration is trained, in terms every framework shares.
struct TrainConfig {
  std::int64_t micro_batch = 1;    // sequences per rank and micro-batch (b)
  std::int64_t micro_batches = 1;  // per optimizer step (M): gradient accumulation or pipeline micro-batches
  DType dtype = DType::fp32;       // of the model: fp32, fp16 or bf16
  Recompute recompute = Recompute::none;
  Schedule schedule = Schedule::one_f_one_b;
  std::optional<Attention> attention;  // absent: as the model's family usually has it (memory.hpp)
  int zero_stage = 0;
  double gradient_clipping = 0.0;  // 0: off
  bool dtype_is_chosen = true;     // false: it is that of a built-in model, which nobody asked for
};

/// Sizes of a DeepSpeed JSON that are "auto": transformers and accelerate set them from the width of the
/// model (`settle_width_sizes`).
struct WidthSizes {
  bool reduce_bucket = false;          // hidden^2
  bool prefetch_bucket = false;        // 0.9 hidden^2
  bool persistence_threshold = false;  // 10 hidden
};

/// DeepSpeed's own settings, defaults of version 0.14.0 (rules/deepspeed.md D10). Sizes count elements.
/// The stage, clipping and micro-batches stand in TrainConfig.
struct DeepSpeedOptions {
  std::int64_t reduce_bucket_size = 500'000'000;
  bool reduce_scatter = true;
  bool use_multi_rank_bucket_allreduce = true;
  bool overlap_comm = false;
  bool contiguous_gradients = true;
  bool round_robin_gradients = false;
  std::int64_t prefetch_bucket_size = 50'000'000;
  std::int64_t param_persistence_threshold = 100'000;
  std::int64_t model_persistence_threshold = INT64_MAX;
  std::int64_t max_live_parameters = 1'000'000'000;
  std::int64_t max_reuse_distance = 1'000'000'000;
  std::int64_t sub_group_size = 1'000'000'000;
  std::int64_t hpz_partition_size = 1;
  std::optional<DType> communication_dtype;      // of gradient reductions; the model's when absent
  std::optional<DType> grad_accumulation_dtype;  // data_types.grad_accum_dtype
  bool pipe_partitioned = true;                  // pipeline.pipe_partitioned
  bool grad_partitioned = true;                  // pipeline.grad_partitioned
  bool quantized_weights = false;                // zero_quantized_weights (qwZ)
  bool quantized_gradients = false;              // zero_quantized_gradients (qgZ)
  bool offload = false;                          // offload_optimizer or offload_param to cpu or nvme
  WidthSizes follows_width;

  // What the client program does around DeepSpeed (case file: options).
  bool weight_decay_groups = false;  // two parameter groups: matrices and embeddings; biases and norms
  bool pipeline_engine = false;
  bool attention_mask = false;                  // set_has_attention_mask(True)
  std::string partition_method = "parameters";  // uniform, parameters, type:REGEX
  bool zero_init = false;                       // model built under zero.Init
  bool replicated_tensor_parallel = false;
  bool partition_activations = false;
  bool checkpoint_activations = false;
};

/// GPT-NeoX's own settings; `version` decides between the two sets of rules (rules/neox_megatron.md §8.1).
struct NeoxOptions {
  bool fp32_allreduce = false;
  bool fp16_lm_cross_entropy = false;
  std::int64_t checkpoint_num_layers = 1;
  bool partition_activations = false;
  std::string partition_method = "type:transformer|mlp";
};

/// Megatron core's own settings (core_v0.7.0 argument names).
struct MegatronOptions {
  bool distributed_optimizer = false;
  bool gradients_in_fp32 = false;  // accumulate-allreduce-grads-in-fp32
  bool is_script = false;          // pretrain_gpt.py: bf16 switches gradients_in_fp32 on (arguments.py)
  bool distribute_saved_activations = false;
  bool variable_seq_lengths = false;
  std::string recompute_method;  // uniform, block, or empty
  std::int64_t recompute_num_layers = 1;
  std::string moe_dispatcher = "allgather";  // allgather, alltoall
  bool overlap_grad_reduce = false;
};

/// Our own trainer (docs/training.md). The stage, clipping, recomputation and micro-batches stand in
/// TrainConfig.
struct CommlensOptions {
  Bytes bucket{25 * 1024 * 1024};                // gradients per call, stages 0-2
  std::int64_t persistence_threshold = 100'000;  // stage 3: parameters up to this many elements stay gathered
  bool deepspeed_like = false;         // stages 1, 2: gradients by all_reduce instead of reduce_scatter
  std::int64_t hpz = 1;                // stage 3: ranks of a secondary partition (ZeRO++ hpZ)
  bool quantized_weights = false;      // stage 3: gathers over dp in int8 (qwZ)
  bool quantized_gradients = false;    // stage 3: gradients in int4, two hops (qgZ)
  bool partition_activations = false;  // full recomputation: stored inputs split over tp
  bool is_carried_over = false;  // another framework's settings: where they do not apply they are left out
};

/// PyTorch DistributedDataParallel (rules/torch_ddp.md).
struct DdpOptions {
  Bytes bucket_cap{25 * 1024 * 1024};
  bool static_graph = false;
};

}  // namespace commlens
