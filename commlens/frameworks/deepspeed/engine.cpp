#include "commlens/frameworks/deepspeed/engine.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "commlens/frameworks/deepspeed/behaviour.hpp"
#include "commlens/frameworks/deepspeed/options.hpp"
#include "commlens/frameworks/deepspeed/source.hpp"
#include "commlens/frameworks/deepspeed/zero12.hpp"
#include "commlens/plan/schemes/buckets.hpp"

namespace commlens::deepspeed {
namespace {

const Rule k_broadcast{"start.broadcast_parameter", k_source<"runtime/engine.py:1077 _broadcast_model">};
const Rule k_stage0_reduce{"stage0.gradient_all_reduce", k_source<"runtime/engine.py:2350 allreduce_bucket">};
const Rule k_clip_dp{"stage0.clip_norm", k_source<"runtime/utils.py:403 clip_grad_norm_">};
const Rule k_clip_mp{"stage0.clip_norm_model_parallel", k_source<"runtime/utils.py:395 clip_grad_norm_">};
const Rule k_overflow_mp{"stage0.overflow_flag_model_parallel",
                         k_source<"runtime/utils.py:290 has_overflow">};
const Rule k_overflow_experts{"stage0.overflow_flag_of_experts",
                              k_new_source<"runtime/utils.py:305 has_overflow">};
const Rule k_norm_mp{"stage0.norm_model_parallel", k_source<"runtime/utils.py:559 get_weight_norm">};
const Rule k_bf16_norm{"bf16.norm_model_parallel",
                       k_source<"runtime/utils.py:908 get_global_norm_of_tensors">};
const Rule k_norm_of_experts{"stage0.norm_of_experts",
                             k_new_source<"runtime/utils.py:1113 get_norm_with_moe_layers">};
const Rule k_legacy_flag{"stage0.overflow_flag_by_norm",
                         k_new_source<"runtime/utils.py:255 check_using_norm">};
const Rule k_gather{"step.gather_updated_parameters",
                    k_source<"runtime/utils.py:973 all_gather_into_tensor_dp_groups">};
const Rule k_overflow_dp{"zero12.overflow_flag", k_source<"runtime/zero/stage_1_and_2.py:1997 has_overflow">};
const Rule k_zero_overflow_mp{"zero12.overflow_flag_model_parallel",
                              k_source<"runtime/zero/stage_1_and_2.py:1647 _model_parallel_all_reduce">};
const Rule k_zero_norm{"zero12.norm", k_source<"runtime/zero/stage_1_and_2.py:1691 get_grad_norm_direct">};
const Rule k_zero_norm_mp{"zero12.norm_model_parallel",
                          k_source<"runtime/zero/stage_1_and_2.py:1647 _model_parallel_all_reduce">};
const Rule k_expert_norm{"zero12.norm_of_experts",
                         k_new_source<"runtime/zero/stage_1_and_2.py:3190 _average_expert_grad_norms">};

constexpr std::int64_t k_allreduce_bucket = 500'000'000;  // MEMORY_OPT_ALLREDUCE_SIZE, runtime/engine.py:107

/// Dense parameters in the order of named_parameters(), then those of experts.
void write_plain_all_reduce(ProgramBuilder& out, const EngineRank& rank) {
  for (const bool is_expert : {false, true}) {
    std::vector<std::int64_t> sizes;
    for (const LocalParameter& parameter : trainable_parameters(rank.parameters, is_expert)) {
      sizes.push_back(parameter.count);
    }
    const GroupId group = is_expert ? rank.groups.expert_data : rank.groups.data;
    for (const std::int64_t sum : buckets_closed_after_exceeding(sizes, k_allreduce_bucket)) {
      out.all_reduce(group, {sum}, communication_dtype(*rank.job), k_stage0_reduce, "gradients");
    }
  }
}

/// The flat gradients of dense groups, then those of experts.
void write_bf16_all_reduce(ProgramBuilder& out, const EngineRank& rank) {
  const std::vector<OptimizerGroup> groups = optimizer_groups(rank);
  for (const bool is_expert : {false, true}) {
    std::vector<std::int64_t> sizes;
    for (const OptimizerGroup& group : groups) {
      if (group.is_expert == is_expert) {
        sizes.push_back(flat_size(group, *rank.job));
      }
    }
    const GroupId ranks = is_expert ? rank.groups.expert_data : rank.groups.data;
    for (const std::int64_t sum : buckets_closed_after_exceeding(sizes, k_allreduce_bucket)) {
      out.all_reduce(ranks, {sum}, communication_dtype(*rank.job), k_stage0_reduce, "gradients");
    }
  }
}

/// All parameters, or this rank's shard of each group.
void write_update(ProgramBuilder& out, const EngineRank& rank) {
  const bool is_whole = optimizer_path(*rank.job) == OptimizerPath::stage0;
  std::int64_t count = 0;
  for (const OptimizerGroup& group : optimizer_groups(rank)) {
    count += is_whole ? total_count(group.parameters) : flat_size(group, *rank.job) / group.size;
  }
  ModelWork(out).optimizer({count});
}

void write_parameter_gathers(ProgramBuilder& out, const EngineRank& rank) {
  for (const OptimizerGroup& group : optimizer_groups(rank)) {
    if (group.size > 1) {
      out.all_gather(group.ranks, {flat_size(group, *rank.job) / group.size}, rank.job->train.dtype, k_gather,
                     "updated parameters");
    }
  }
}

bool has_experts(const EngineRank& rank) {
  return std::any_of(rank.parameters.begin(), rank.parameters.end(),
                     [](const LocalParameter& parameter) { return parameter.is_expert; });
}

/// FP16_Optimizer takes one norm of all dense groups, FP16_UnfusedOptimizer one of each. The legacy steps
/// take one of each group, experts too, and tell overflows by them.
std::int64_t half_norms(const EngineRank& rank, HalfStep kind) {
  if (kind == HalfStep::fused) {
    return 1;
  }
  const std::vector<OptimizerGroup> groups = optimizer_groups(rank);
  return std::count_if(groups.begin(), groups.end(), [&](const OptimizerGroup& group) {
    return kind == HalfStep::legacy || !group.is_expert;
  });
}

void write_half_norms(ProgramBuilder& out, const EngineRank& rank, HalfStep kind) {
  for (std::int64_t norm = 0; rank.has_mpu && norm < half_norms(rank, kind); ++norm) {
    out.all_reduce(rank.groups.model, {1}, DType::fp32, k_norm_mp, "gradient norm");
  }
}

/// A norm of the experts of each rank, summed over those that hold different ones; and over the
/// model-parallel ranks before, where these split experts.
void write_norm_of_experts(ProgramBuilder& out, const EngineRank& rank) {
  if (!has_experts(rank)) {
    return;
  }
  if (rank.has_mpu && options(*rank.job).mixture.splits_experts) {
    out.all_reduce(rank.groups.model, {1}, DType::fp32, k_bf16_norm, "gradient norm of experts");
  }
  if (rank.job->layout.ep > 1) {
    out.all_reduce(rank.groups.experts, {1}, DType::fp32, k_norm_of_experts, "gradient norm of experts");
  }
}

/// Overflows are told by the norms, as a float.
void write_legacy_flag(ProgramBuilder& out, const EngineRank& rank) {
  out.set_reduction(Reduction::max);
  if (has_experts(rank)) {
    out.all_reduce(rank.groups.experts, {1}, DType::fp32, k_legacy_flag, "overflow flag");
  }
  out.all_reduce(rank.has_mpu ? rank.groups.model : out.groups.world, {1}, DType::fp32, k_legacy_flag,
                 "overflow flag");
  out.set_reduction(Reduction::sum);
  if (!rank.has_mpu) {
    out.barrier(out.groups.world, k_legacy_flag);
  }
}

void write_half_step(ProgramBuilder& out, const EngineRank& rank, bool overflows) {
  const HalfStep kind = half_step(*rank.job);
  if (kind == HalfStep::legacy) {
    write_half_norms(out, rank, kind);
    return write_legacy_flag(out, rank);
  }
  if (has_experts(rank)) {
    write_overflow_flag(out, rank.groups.experts, k_overflow_experts);
  }
  if (rank.has_mpu) {
    write_overflow_flag(out, rank.groups.model, k_overflow_mp);
  }
  if (!overflows) {
    write_half_norms(out, rank, kind);
    if (kind == HalfStep::fused) {
      write_norm_of_experts(out, rank);
    }
  }
}

void write_stage0_step(ProgramBuilder& out, const EngineRank& rank, bool overflows) {
  if (rank.job->train.dtype != DType::fp32) {
    write_half_step(out, rank, overflows);
  } else if (rank.job->train.gradient_clipping > 0) {
    if (rank.has_mpu) {
      out.all_reduce(rank.groups.model, {1}, DType::fp32, k_clip_mp, "gradient norm");
    }
    out.all_reduce(rank.groups.data, {1}, DType::fp32, k_clip_dp, "gradient norm");
  }
  if (!overflows) {
    write_update(out, rank);
  }
}

void write_bf16_step(ProgramBuilder& out, const EngineRank& rank) {
  if (rank.has_mpu) {
    out.all_reduce(rank.groups.model, {1}, DType::fp32, k_bf16_norm, "gradient norm");
  }
  write_norm_of_experts(out, rank);
  write_update(out, rank);
  write_parameter_gathers(out, rank);
}

bool checks_overflow(const Job& job) {
  const bool checks_bf16 = options(job).checks_bf16_overflow.value_or(behaviour(job).checks_bf16_overflow);
  return job.train.dtype == DType::fp16 || (job.train.dtype == DType::bf16 && checks_bf16);
}

void write_zero12_norms(ProgramBuilder& out, const EngineRank& rank) {
  const std::vector<OptimizerGroup> groups = optimizer_groups(rank);
  for (std::size_t group = 0; group < groups.size(); ++group) {
    out.all_reduce(rank.groups.data, {1}, DType::fp32, k_zero_norm, "gradient norm");
    if (rank.model_ranks > 1) {
      out.all_reduce(rank.groups.model, {1}, DType::fp32, k_zero_norm_mp, "gradient norm");
    }
  }
  for (const OptimizerGroup& group : groups) {
    if (group.is_expert) {
      out.all_reduce(group.ranks, {1}, DType::fp32, k_expert_norm, "gradient norm of experts");
    }
  }
}

void write_zero12_step(ProgramBuilder& out, const EngineRank& rank, bool overflows) {
  const Job& job = *rank.job;
  if (checks_overflow(job)) {
    if (job.train.zero_stage == 2 || behaviour(job).stage1_sends_overflow_flag) {
      write_overflow_flag(out, rank.groups.data, k_overflow_dp);
    }
    if (rank.model_ranks > 1) {
      write_overflow_flag(out, rank.groups.model, k_zero_overflow_mp);
    }
    if (overflows) {
      return;
    }
  }
  if (options(job).computes_norm) {
    write_zero12_norms(out, rank);
  }
  write_update(out, rank);
  write_parameter_gathers(out, rank);
}

}  // namespace

void write_overflow_flag(ProgramBuilder& out, GroupId group, const Rule& rule) {
  out.set_reduction(Reduction::max);
  out.all_reduce(group, {1}, DType::uint8, rule, "overflow flag");
  out.set_reduction(Reduction::sum);
}

HalfStep half_step(const Job& job) {
  const Options& own = options(job);
  const bool is_fused = job.framework != k_name || own.optimizer == OptimizerKind::fused_adam;
  if (own.optimizer == OptimizerKind::fused_lamb || (own.has_legacy_fusion && is_fused)) {
    return HalfStep::legacy;
  }
  return is_fused ? HalfStep::fused : HalfStep::unfused;
}

DType communication_dtype(const Job& job) {
  if (job.layout.cp > 1) {
    return options(job).sequence_communication_dtype;
  }
  return options(job).communication_dtype.value_or(job.train.dtype);
}

DType communication_dtype(const Job& job, const LocalParameter& parameter) {
  const std::optional<DType> cast = options(job).autocast;
  return !cast ? communication_dtype(job) : parameter.is_cast ? *cast : job.train.dtype;
}

bool copies_gradients(const Job& job) {
  return options(job).contiguous_gradients || options(job).offloads_optimizer;
}

DType sent_dtype(const Job& job, DType bucket) {
  const bool is_whole = copies_gradients(job) && !options(job).reduce_scatter;
  return job.layout.cp > 1 && optimizer_path(job) == OptimizerPath::zero12 && !is_whole ? DType::fp32
                                                                                        : bucket;
}

OptimizerPath optimizer_path(const Job& job) {
  const int stage = job.train.zero_stage;
  if (stage == 3) {
    return OptimizerPath::zero3;
  }
  const bool sums_in_fp32 = options(job).grad_accumulation_dtype == DType::fp32;
  const bool is_bf16 = job.train.dtype == DType::bf16;
  const bool is_own_stage1 = is_bf16 && stage == 1 && sums_in_fp32 && !options(job).offloads_optimizer;
  switch (behaviour(job).bf16_optimizer) {
    case Behaviour::Bf16Optimizer::all:
      if (is_own_stage1 || (is_bf16 && stage == 0)) {
        return OptimizerPath::bf16;
      }
      break;
    case Behaviour::Bf16Optimizer::none:
      if (is_own_stage1) {
        return OptimizerPath::stage0;
      }
      break;
    case Behaviour::Bf16Optimizer::pipeline_or_stage1:
      if (is_own_stage1 || (is_bf16 && stage == 0 && options(job).pipeline_engine)) {
        return OptimizerPath::bf16;
      }
      break;
  }
  return stage == 0 ? OptimizerPath::stage0 : OptimizerPath::zero12;
}

PassOptions pass_options(const Job& job) {
  const Options& own = options(job);
  const bool saves_memory =
      own.memory_efficient_linear && (own.zero_init || behaviour(job).reduces_weight_first);
  return {.recomputes = job.train.recompute == Recompute::full,
          .is_reentrant = own.has_reentrant_checkpoints || job.train.partition_activations,
          .is_weight_first = own.autocast.has_value() || (job.train.zero_stage == 3 && saves_memory)};
}

void write_parameter_broadcast(ProgramBuilder& out, const Rooted& from, const LocalParameter& parameter,
                               const Rule& rule, std::string_view tag) {
  const Elements count{parameter.count};
  const DType dtype = out.job().train.dtype;
  if (behaviour(out.job()).broadcasts_bytes) {
    out.broadcast(from, {(count * dtype).value}, DType::uint8, rule, tag);
  } else {
    out.broadcast(from, count, dtype, rule, tag);
  }
}

void write_parameter_broadcasts(ProgramBuilder& out, const EngineRank& rank) {
  for (const LocalParameter& parameter : rank.parameters) {
    const GroupId group = parameter.is_expert ? rank.groups.expert_data : rank.groups.start;
    write_parameter_broadcast(out, {group, GroupRank{0}}, parameter, k_broadcast, parameter.tag);
  }
}

void write_step(ProgramBuilder& out, const EngineRank& rank, bool overflows) {
  switch (optimizer_path(*rank.job)) {
    case OptimizerPath::stage0:
      return write_stage0_step(out, rank, overflows);
    case OptimizerPath::bf16:
      return write_bf16_step(out, rank);
    case OptimizerPath::zero12:
      return write_zero12_step(out, rank, overflows);
    case OptimizerPath::zero3:
      return;
  }
}

void write_gradients(ProgramBuilder& out, const EngineRank& rank, bool is_boundary) {
  switch (optimizer_path(*rank.job)) {
    case OptimizerPath::stage0:
    case OptimizerPath::bf16:
      if (rank.end_backward) {
        rank.end_backward();
      }
      if (is_boundary) {
        optimizer_path(*rank.job) == OptimizerPath::bf16 ? write_bf16_all_reduce(out, rank)
                                                         : write_plain_all_reduce(out, rank);
      }
      return;
    case OptimizerPath::zero12:
      return write_zero12_gradients(out, rank, is_boundary);
    case OptimizerPath::zero3:
      if (rank.end_backward) {
        rank.end_backward();
      }
      return;
  }
}

}  // namespace commlens::deepspeed
