#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "commlens/base/dtype.hpp"
#include "commlens/base/units.hpp"
#include "commlens/model/job.hpp"
#include "commlens/model/parameters.hpp"

namespace commlens::deepspeed {

/// The framework as the command line and files name it.
inline constexpr std::string_view k_name = "deepspeed";

/// Sizes of a DeepSpeed JSON that are "auto": transformers and accelerate set them from the width of the
/// model (`settle_width_sizes`).
struct WidthSizes {
  bool reduce_bucket = false;          // hidden^2
  bool prefetch_bucket = false;        // 0.9 hidden^2
  bool persistence_threshold = false;  // 10 hidden
};

/// zero_optimization.leaf_module: modules whose parameters stage 3 handles together.
struct LeafModules {
  std::vector<std::string> classes;
  std::vector<std::string> names;
  std::vector<std::string> suffixes;
  friend bool operator==(const LeafModules&, const LeafModules&) = default;
};

/// tensor_parallel.partition_config.layer_specs: linears whose weights' names begin as a regular expression
/// says are split along their output (column) or input (row), or left whole (skip).
struct TensorSpec {
  std::vector<std::string> patterns;
  TensorSplit split = TensorSplit::column;
  bool gathers_output = false;  // of a column linear
  friend bool operator==(const TensorSpec&, const TensorSpec&) = default;
};

/// Linears that are replaced by a container of the frozen linear (base) and two small ones (A, B); all other
/// parameters are frozen.
struct LowRank {
  std::vector<std::string> targets;  // names of linears in a block
  std::int64_t rank = 0;             // 0: none
};

/// deepspeed.moe.layer.MoE in place of the MLP of some blocks.
struct Mixture {
  std::vector<std::int64_t> layers;  // empty: no block has one
  double capacity_factor = 1.0;
  std::int64_t min_capacity = 4;
  /// Elements of a parameter group of experts. Source: moe/utils.py:72 of 0.19.8, max_group_size.
  std::int64_t largest_group = 178'956'971;
  bool drops_tokens = true;
  bool splits_experts = false;  // enable_expert_tensor_parallelism
};

/// GatheredParameters around nothing, before each iteration.
struct GatheredParameters {
  std::vector<std::string> modules;           // empty: none
  std::optional<std::int64_t> modifier_rank;  // whose changes are kept; absent: nobody's
};

/// A block that some iterations leave out.
struct SkippedBlock {
  std::int64_t block = -1;
  std::vector<std::int64_t> iterations;
};

/// Over which ranks gradients are reduced where the sequence is split (layout.cp): all of them, by a
/// model-parallel unit that says so; or the data ranks alone, as DeepSpeed's own mesh has it.
enum class SequenceGroups : std::uint8_t { mpu, mesh };

/// A key of the JSON that newer releases refuse, also switched off.
struct RemovedKey {
  std::string name;
  std::string where;  // file:line
  bool is_on = false;
};

/// The optimizer that DeepSpeed wraps: its fused Adam or Lamb (section optimizer), or any other, the
/// client's.
enum class OptimizerKind : std::uint8_t { other, fused_adam, fused_lamb };

/// DeepSpeed's own settings, defaults of its newest release (runtime/config.py, runtime/zero/config.py).
/// Sizes count elements. The stage, clipping and micro-batches are in TrainConfig.
struct Options {
  std::string release;  // of the DeepSpeed that a client runs on; plain jobs name it as framework_version
  std::vector<RemovedKey> removed_keys;
  std::int64_t reduce_bucket_size = 500'000'000;
  bool reduce_scatter = true;
  bool use_multi_rank_bucket_allreduce = true;
  bool overlap_comm = false;
  bool contiguous_gradients = true;
  bool round_robin_gradients = false;
  std::int64_t prefetch_bucket_size = 50'000'000;
  std::int64_t model_persistence_threshold = INT64_MAX;
  std::int64_t max_live_parameters = 1'000'000'000;
  std::int64_t max_reuse_distance = 1'000'000'000;
  std::int64_t sub_group_size = 1'000'000'000;
  bool memory_efficient_linear = true;
  bool all_reduce_fetch = false;             // stage3_use_all_reduce_for_fetch_params
  bool sequential_gather = false;            // stage3_allgather_sequential
  std::int64_t gpus_per_node = 0;            // as DeepSpeed sees it; 0: not known (quantized_gradients)
  std::int64_t granularity = 0;              // stage3_module_granularity_threshold; 0: off
  LeafModules leaf_modules;                  // leaf_module, beside those of the granularity
  bool has_sanity_checks = false;            // enable_sanity_checks
  bool computes_norm = true;                 // compute_grad_norm
  bool aligns_parameters = false;            // parameter_alignment
  bool quantizes_nontrainable = false;       // zero_quantized_nontrainable_weights
  std::optional<DType> communication_dtype;  // of gradient reductions; the model's when absent
  DType sequence_communication_dtype = DType::fp32;  // of those where the sequence is split
  std::optional<DType> grad_accumulation_dtype;      // data_types.grad_accum_dtype
  std::optional<double> default_clipping;            // the release's, where the job names none (settle)
  std::optional<bool> checks_bf16_overflow;  // bf16.check_grad_overflow; absent: the release's default
  std::optional<DType> autocast;             // torch_autocast
  std::optional<std::vector<std::string>> autocast_modules;  // lower_precision_safe_modules; absent: linears
  bool pipe_partitioned = true;                              // pipeline.pipe_partitioned
  bool grad_partitioned = true;                              // pipeline.grad_partitioned
  bool offloads_optimizer = false;                           // offload_optimizer to cpu or nvme
  bool offloads_parameters = false;                          // offload_param to cpu or nvme
  bool keeps_parameters_on_nvme = false;                     // offload_param to nvme
  bool auto_tp = false;                                      // tensor_parallel.autotp_size is layout.tp
  std::optional<std::vector<TensorSpec>> tensor_specs;  // absent: AutoTP chooses, the linears of Llama's tree
  bool auto_ep = false;                                 // expert_parallel.autoep_size is layout.ep
  bool has_data_before_experts = false;                 // use_data_before_expert_parallelism
  OptimizerKind optimizer = OptimizerKind::other;
  bool has_legacy_fusion = false;  // optimizer.legacy_fusion
  SequenceGroups sequence_groups = SequenceGroups::mpu;
  std::int64_t mesh_data_ranks = 0;  // data_parallel_size, of the mesh; 0: absent
  WidthSizes follows_width;

  // What the client program does around DeepSpeed (case file: options).
  bool weight_decay_groups = false;  // two parameter groups: matrices and embeddings; biases and norms
  bool pipeline_engine = false;
  bool dual_pipe = false;                       // DualPipeVModule, whose ranks hold two stages each
  bool attention_mask = false;                  // set_has_attention_mask(True)
  bool dynamic_shape = false;                   // PipelineModule(dynamic_shape=True)
  std::int64_t additional_losses = 0;           // get_additional_losses()
  std::string partition_method = "parameters";  // uniform, parameters, type:REGEX
  bool zero_init = false;                       // model built under zero.Init
  bool has_reentrant_checkpoints = false;       // of torch.utils.checkpoint
  bool calls_tp_model_init = false;
  bool has_sequence_loader = false;   // UlyssesSPDataLoaderAdapter
  bool manages_accumulation = true;   // managed_gradient_accumulation
  bool coalesces_reductions = false;  // engine.coalesce_grad_reduction() around the micro-batches
  /// What is wrong unless the engine does not count backward passes: a case with more micro-batches than
  /// gradient_accumulation_steps. Empty: nothing.
  std::string uncounted_passes;
  std::int64_t counted_steps = 0;   // gradient_accumulation_steps of such a case; 0: there is no other number
  bool has_auto_values = false;     // of a JSON alone, which the Trainer then fills in
  bool is_trainer = false;          // the Trainer of transformers
  bool logs_steps = false;          // which logs its loss after each step
  bool is_accelerate = false;       // a script of accelerate
  std::vector<std::string> frozen;  // beginnings of parameters' names
  LowRank low_rank;
  Mixture mixture;
  GatheredParameters gathered;
  SkippedBlock skipped;
  std::vector<std::int64_t> evaluated_before;  // iterations that a forward pass without gradients precedes
  std::vector<std::int64_t> overflows_in;      // iterations whose loss is infinite
  bool compares_tags = true;                   // checkpoint.tag_validation
  bool is_predivided = false;                  // prescale_gradients, or a gradient_predivide_factor
  bool sums_gradients = false;                 // gradient_allreduce_op: sum
  std::optional<std::int64_t> saves_after;     // the iteration after which a checkpoint is saved
};

inline const Options& options(const Job& job) { return job.options.of<Options>(); }
inline Options& options(Job& job) { return job.options.edit<Options>(); }

/// Whether this engine trains the job: its own jobs and those of clients that run on it, which carry its
/// options.
bool runs(const Job& job);

/// Whether the model is one of transformers, whose modules have names and calls of their own.
bool is_of_transformers(const Job& job);

/// Gives the sizes that follow the width of the model (Options::follows_width) their values, in elements:
/// reduce_bucket_size hidden^2, prefetch_bucket_size int(0.9 hidden^2), the persistence threshold 10 hidden.
/// To be called again whenever the width changes. Source: transformers integrations/deepspeed.py
/// trainer_config_finalize; accelerate accelerator.py _prepare_deepspeed.
void settle_width_sizes(Job& job);

}  // namespace commlens::deepspeed
