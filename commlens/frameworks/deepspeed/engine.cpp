#include "commlens/frameworks/deepspeed/engine.hpp"

#include <fmt/format.h>

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
const Rule k_norm_mp{"stage0.norm_model_parallel", k_source<"runtime/utils.py:559 get_weight_norm">};
const Rule k_bf16_norm{"bf16.norm_model_parallel",
                       k_source<"runtime/utils.py:908 get_global_norm_of_tensors">};
const Rule k_gather{"step.gather_updated_parameters",
                    k_source<"runtime/utils.py:973 all_gather_into_tensor_dp_groups">};
const Rule k_overflow_dp{"zero12.overflow_flag", k_source<"runtime/zero/stage_1_and_2.py:1997 has_overflow">};
const Rule k_zero_overflow_mp{"zero12.overflow_flag_model_parallel",
                              k_source<"runtime/zero/stage_1_and_2.py:1647 _model_parallel_all_reduce">};
const Rule k_zero_norm{"zero12.norm", k_source<"runtime/zero/stage_1_and_2.py:1691 get_grad_norm_direct">};
const Rule k_zero_norm_mp{"zero12.norm_model_parallel",
                          k_source<"runtime/zero/stage_1_and_2.py:1647 _model_parallel_all_reduce">};

constexpr std::int64_t k_allreduce_bucket = 500'000'000;  // MEMORY_OPT_ALLREDUCE_SIZE, runtime/engine.py:107

std::int64_t data_ranks(const Job& job) { return job.layout.dp; }

/// Elements of each parameter group.
std::vector<std::int64_t> group_sizes(const EngineRank& rank) {
  return optimizer_group_sizes(rank.parameters, options(*rank.job).weight_decay_groups);
}

/// Elements of a parameter group once flattened: padded to nccl_start_alignment_factor (2) x data ranks.
/// Source: runtime/zero/stage_1_and_2.py:277, runtime/bf16_optimizer.py:106.
std::int64_t padded_size(std::int64_t group, std::int64_t data_ranks) {
  return round_up(group, 2 * data_ranks);
}

void write_stage0_gradients(ProgramBuilder& out, const EngineRank& rank) {
  std::vector<std::int64_t> sizes;
  if (optimizer_path(*rank.job) == OptimizerPath::bf16) {
    for (const std::int64_t group : group_sizes(rank)) {
      sizes.push_back(padded_size(group, data_ranks(*rank.job)));
    }
  } else {
    for (const LocalParameter& parameter : rank.parameters) {
      sizes.push_back(parameter.count);
    }
  }
  for (const std::int64_t sum : buckets_closed_after_exceeding(sizes, k_allreduce_bucket)) {
    out.all_reduce(out.groups.dp, {sum}, communication_dtype(*rank.job), k_stage0_reduce, "gradients");
  }
}

/// All parameters, or this rank's shard of each group.
void write_update(ProgramBuilder& out, const EngineRank& rank) {
  const bool is_whole = optimizer_path(*rank.job) == OptimizerPath::stage0;
  const std::int64_t ranks = data_ranks(*rank.job);
  std::int64_t count = 0;
  for (const std::int64_t group : group_sizes(rank)) {
    count += is_whole ? group : padded_size(group, ranks) / ranks;
  }
  ModelWork(out).optimizer({count});
}

void write_parameter_gathers(ProgramBuilder& out, const EngineRank& rank) {
  const std::int64_t ranks = data_ranks(*rank.job);
  if (ranks == 1) {
    return;
  }
  for (const std::int64_t group : group_sizes(rank)) {
    out.all_gather(out.groups.dp, {padded_size(group, ranks) / ranks}, rank.job->train.dtype, k_gather,
                   "updated parameters");
  }
}

void write_stage0_step(ProgramBuilder& out, const EngineRank& rank) {
  const bool is_fp16 = rank.job->train.dtype == DType::fp16;
  if (is_fp16 && rank.has_mpu) {
    out.all_reduce(out.groups.model, {1}, DType::uint8, k_overflow_mp, "overflow flag");
    out.all_reduce(out.groups.model, {1}, DType::fp32, k_norm_mp, "gradient norm");
  }
  if (!is_fp16 && rank.job->train.gradient_clipping > 0) {
    if (rank.has_mpu) {
      out.all_reduce(out.groups.model, {1}, DType::fp32, k_clip_mp, "gradient norm");
    }
    out.all_reduce(out.groups.dp, {1}, DType::fp32, k_clip_dp, "gradient norm");
  }
  write_update(out, rank);
}

void write_bf16_step(ProgramBuilder& out, const EngineRank& rank) {
  if (rank.has_mpu) {
    out.all_reduce(out.groups.model, {1}, DType::fp32, k_bf16_norm, "gradient norm");
  }
  write_update(out, rank);
  write_parameter_gathers(out, rank);
}

void write_zero12_step(ProgramBuilder& out, const EngineRank& rank) {
  const bool has_model_group = rank.model_ranks > 1;
  if (rank.job->train.dtype == DType::fp16) {
    out.all_reduce(out.groups.dp, {1}, DType::uint8, k_overflow_dp, "overflow flag");
    if (has_model_group) {
      out.all_reduce(out.groups.model, {1}, DType::uint8, k_zero_overflow_mp, "overflow flag");
    }
  }
  for (std::size_t group = 0; group < group_sizes(rank).size(); ++group) {
    out.all_reduce(out.groups.dp, {1}, DType::fp32, k_zero_norm, "gradient norm");
    if (has_model_group) {
      out.all_reduce(out.groups.model, {1}, DType::fp32, k_zero_norm_mp, "gradient norm");
    }
  }
  write_update(out, rank);
  write_parameter_gathers(out, rank);
}

}  // namespace

DType communication_dtype(const Job& job) {
  return options(job).communication_dtype.value_or(job.train.dtype);
}

OptimizerPath optimizer_path(const Job& job) {
  const int stage = job.train.zero_stage;
  if (stage == 3) {
    return OptimizerPath::zero3;
  }
  const bool accumulates_fp32 = options(job).grad_accumulation_dtype == DType::fp32;
  if (job.train.dtype == DType::bf16 && (stage == 0 || (stage == 1 && accumulates_fp32))) {
    return OptimizerPath::bf16;
  }
  return stage == 0 ? OptimizerPath::stage0 : OptimizerPath::zero12;
}

void write_parameter_broadcasts(ProgramBuilder& out, const EngineRank& rank) {
  for (const LocalParameter& parameter : rank.parameters) {
    out.broadcast({out.groups.dp, GroupRank{0}}, {parameter.count}, rank.job->train.dtype, k_broadcast,
                  parameter.tag);
  }
}

void write_step(ProgramBuilder& out, const EngineRank& rank) {
  switch (optimizer_path(*rank.job)) {
    case OptimizerPath::stage0:
      return write_stage0_step(out, rank);
    case OptimizerPath::bf16:
      return write_bf16_step(out, rank);
    case OptimizerPath::zero12:
      return write_zero12_step(out, rank);
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
        write_stage0_gradients(out, rank);
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
