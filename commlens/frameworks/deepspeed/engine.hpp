#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "commlens/frameworks/deepspeed/model_tree.hpp"
#include "commlens/frameworks/deepspeed/pass_runner.hpp"
#include "commlens/model/job.hpp"
#include "commlens/plan/local_parameters.hpp"
#include "commlens/plan/program_builder.hpp"

namespace commlens::deepspeed {

/// The groups of one rank, and the sizes of those that share states.
struct EngineGroups {
  GroupId start;  // of start broadcasts
  GroupId data;   // gradients, norms and flags
  std::int64_t data_ranks = 1;
  GroupId shards;  // of parameters, stage 3: data, or all ranks
  std::int64_t shard_ranks = 1;
  GroupId experts;      // ranks that hold different experts
  GroupId expert_data;  // and those that hold the same
  std::int64_t expert_data_ranks = 1;
  GroupId model;  // of the model-parallel unit
};
/// Experts that tensor ranks do not split are shared by consecutive ranks, those of a replica first. Source:
/// moe/layer.py:93, utils/groups.py:370 of 0.19.8.
EngineGroups engine_groups(const ProgramBuilder& out);
/// The ranks that keep a copy of each parameter among them: as many as zero_hpz_partition_size says, that
/// follow each other, model-parallel ones too. Source: utils/groups.py:925 _create_zero_param_parallel_group
/// of 0.19.8.
GroupId node_group(const ProgramBuilder& out);
/// Their data_ranks and shard_ranks. Stage 3 knows no mesh, and zero.Init no model-parallel ranks either:
/// what they partition is spread over these too. Source: recorded runs (tests/golden/deepspeed_recorded);
/// runtime/zero/partition_parameters.py:1092 Init of 0.19.8.
std::int64_t data_ranks(const Job& job);
std::int64_t shard_ranks(const Job& job);

/// The input of DeepSpeed's engine on one rank; the client framework (a plain script, GPT-NeoX) fills it in.
struct EngineRank {
  const Job* job = nullptr;
  EngineGroups groups;
  LocalParameters parameters;       // of this rank, in named_parameters() order
  const ModelTree* tree = nullptr;  // that they are of; null under a pipeline engine
  std::int64_t model_ranks = 1;     // tensor x pipeline ranks of one replica
  bool has_mpu = false;             // a model-parallel unit was given, or the pipeline engine runs
  bool has_pipeline_engine = false;
  /// Goes on with the backward pass under way until the gradient of a parameter is complete, or to its end;
  /// null where it is over when gradients are written.
  std::function<void(const LocalParameter&)> compute_until;
  std::function<void()> end_backward;
  bool zero3_computes = true;  // false where the client writes the computing of stage 3 itself
  ModuleMessages messages;     // null: none
  /// What the client sends before a forward pass of an iteration. Null: nothing.
  std::function<void(std::int64_t iteration, std::int32_t micro_batch)> before_forward;
};

/// Those that are trained, dense ones or those of experts.
LocalParameters trainable_parameters(const LocalParameters& parameters, bool is_expert);

/// A parameter group of the optimizer.
struct OptimizerGroup {
  LocalParameters parameters;  // the trainable ones
  GroupId ranks;               // that share their states
  std::int64_t size = 1;       // of `ranks`
  bool is_expert = false;
};
std::vector<OptimizerGroup> optimizer_groups(const EngineRank& rank);

/// The parameters of a group in the order of its flat states: with round_robin_gradients those i, i + d,
/// i + 2d, … of each of d ranks in turn. Source: runtime/zero/stage_1_and_2.py:638; :469 of 0.19.8.
LocalParameters flat_order(const OptimizerGroup& group, const Job& job);

/// Elements of the parameters of flat states, in their order (flat_order): with parameter_alignment, all but
/// the last are padded to 16 B. Source: runtime/zero/stage_1_and_2.py of 0.19.7.
std::vector<std::int64_t> aligned_sizes(const LocalParameters& flat, const Job& job);

/// Elements of a parameter group once flattened: padded to nccl_start_alignment_factor (2) x its ranks.
/// Source: runtime/zero/stage_1_and_2.py:277, runtime/bf16_optimizer.py:106.
std::int64_t flat_size(const OptimizerGroup& group, const Job& job);

/// Which of DeepSpeed's optimizers wraps the client's.
enum class OptimizerPath { stage0, bf16, zero12, zero3 };
OptimizerPath optimizer_path(const Job& job);

/// How the optimizer that wraps the client's steps in 16 bits without ZeRO: FP16_Optimizer; or
/// FP16_UnfusedOptimizer, where the client's is not FusedAdam; or as either did with legacy_fusion and Lamb.
/// Source: runtime/engine.py:2555 of 0.19.8.
enum class HalfStep { fused, unfused, legacy };
HalfStep half_step(const Job& job);

/// The dtype of gradient reductions: that of the model unless the job says otherwise, or the sequence is
/// split. Source: runtime/engine.py:826; :1857 of 0.19.6.
DType communication_dtype(const Job& job);
/// The same of one parameter: with torch_autocast the one that it is cast to, else its own, whatever the job
/// says. Source: runtime/base_optimizer.py:393 get_param_comm_dtype of 0.19.8.
DType communication_dtype(const Job& job, const LocalParameter& parameter);

/// The dtype in which a bucket of one is sent. Stages 1 and 2 send fp32 where the sequence is split, but for
/// buckets that are not cut at partitions. Source: runtime/zero/stage_1_and_2.py:2373 allreduce_bucket, :1485
/// gradient_reduction_w_predivide of 0.19.8.
DType sent_dtype(const Job& job, DType bucket);
/// Whether stages 1 and 2 copy gradients into buffers: contiguous_gradients, or offload, which needs them.
/// Source: runtime/zero/stage_1_and_2.py:300 of 0.19.8.
bool copies_gradients(const Job& job);

/// How the passes of the job go.
PassOptions pass_options(const Job& job);

/// One byte of each rank, of which the largest counts: whether gradients overflow.
void write_overflow_flag(ProgramBuilder& out, GroupId group, const Rule& rule);

/// A broadcast of a parameter's value.
void write_parameter_broadcast(ProgramBuilder& out, const Rooted& from, const LocalParameter& parameter,
                               const Rule& rule, std::string_view tag);

/// Broadcasts of all parameters at the start of training. Source: runtime/engine.py:1061.
void write_parameter_broadcasts(ProgramBuilder& out, const EngineRank& rank);

/// Gradient reductions of one micro-batch and the backward pass that they belong to (EngineRank). Stages 0-2;
/// `is_boundary` marks the last micro-batch of the step. Stage 3 has a writer of its own (zero3.hpp).
void write_gradients(ProgramBuilder& out, const EngineRank& rank, bool is_boundary);

/// Overflow flags, norms, the update and parameter gathers of the optimizer step, stages 0-2. A step whose
/// gradients overflow ends with the flags.
void write_step(ProgramBuilder& out, const EngineRank& rank, bool overflows = false);

/// Settings of the job whose rules were only read in the source, never measured
/// (docs/frameworks/deepspeed.md).
std::vector<std::string> unverified(const Job& job);

}  // namespace commlens::deepspeed
