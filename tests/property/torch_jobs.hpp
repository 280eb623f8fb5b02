#pragma once
#include <string>
#include <vector>

#include <rapidcheck.h>

#include "commlens/frameworks/frameworks.hpp"
#include "commlens/frameworks/torch/options.hpp"
#include "commlens/frameworks/torch/schedules.hpp"
#include "commlens/model/job.hpp"

// Random jobs of PyTorch's own parallel modules (docs/frameworks/torch.md).
namespace commlens {

/// Of so many blocks; heads and widths that two and four tensor ranks divide.
inline ModelConfig random_llama(std::int64_t layers) {
  ModelConfig model;
  model.name = "random";
  model.family = Family::llama;
  model.gated_mlp = true;
  model.linear_bias = model.qkv_bias = model.norm_bias = false;
  model.layers = layers;
  model.heads = 8;
  model.kv_heads = *rc::gen::element<std::int64_t>(4, 8);
  model.head_dim = 8;
  model.hidden = 16 * *rc::gen::inRange<std::int64_t>(1, 5);
  model.ffn_hidden = 4 * *rc::gen::inRange<std::int64_t>(5, 40);
  model.sequence = model.max_positions = 16 * *rc::gen::inRange<std::int64_t>(1, 5);
  model.vocab = model.raw_vocab = 4 * *rc::gen::inRange<std::int64_t>(5, 90);
  return model;
}

/// fully_shard of a llama: data ranks in one mesh of replicas and shards, units, dtypes and prefetches.
inline void add_random_fsdp(Job& job) {
  pytorch::Options& own = pytorch::options(job);
  const auto replicas = *rc::gen::element<std::int64_t>(1, 1, 2);
  own.data_shard = *rc::gen::inRange<std::int64_t>(1, 5);
  job.layout.dp = replicas * own.data_shard;
  pytorch::Fsdp& fsdp = own.fsdp;
  fsdp.is_used = true;
  using pytorch::Unit;
  fsdp.units =
      *rc::gen::element(std::vector{Unit::root}, std::vector{Unit::blocks, Unit::root},
                        std::vector{Unit::embedding, Unit::blocks, Unit::root},
                        std::vector{Unit::embedding, Unit::blocks, Unit::head_with_norm, Unit::root});
  using Kind = pytorch::ReshardAfterForward::Kind;
  fsdp.reshard_after_forward.kind = *rc::gen::element(Kind::automatic, Kind::yes, Kind::no);
  fsdp.reduce_dtype = *rc::gen::element(std::optional<DType>(), std::optional(DType::fp32));
  fsdp.param_dtype = *rc::gen::element(std::optional<DType>(), std::optional(DType::bf16));
  const bool has_blocks = fsdp.units.size() > 1;
  fsdp.forward_prefetch = has_blocks ? *rc::gen::inRange<std::int64_t>(0, 3) : 0;
  fsdp.sync_each_micro_batch = *rc::gen::arbitrary<bool>();
}

inline Job random_fsdp_job() {
  Job job;
  job.framework = "torch-fsdp";
  job.model = random_llama(*rc::gen::inRange<std::int64_t>(1, 6));
  job.train.micro_batches = *rc::gen::inRange<std::int64_t>(1, 4);
  job.train.dtype = *rc::gen::element(DType::fp32, DType::bf16);
  job.train.recompute = *rc::gen::element(Recompute::none, Recompute::full);
  add_random_fsdp(job);
  return job;
}

inline Job random_tensor_job() {
  Job job = random_fsdp_job();
  job.framework = "torch-tp";
  job.layout.tp = *rc::gen::element<std::int64_t>(1, 2, 4);
  job.layout.sequence_parallel = *rc::gen::arbitrary<bool>();
  pytorch::options(job).tensor.loss_parallel = *rc::gen::arbitrary<bool>();
  pytorch::options(job).tensor.init_from_rank0 = *rc::gen::arbitrary<bool>();
  return job;
}

/// A schedule with micro-batches enough for any of them; data ranks by DDP, FSDP or none.
inline Job random_pipeline_job() {
  using pytorch::PipelineSchedule;
  const auto schedule = *rc::gen::element(PipelineSchedule::gpipe, PipelineSchedule::one_f_one_b,
                                          PipelineSchedule::interleaved_1f1b, PipelineSchedule::looped_bfs,
                                          PipelineSchedule::interleaved_zero_bubble,
                                          PipelineSchedule::zbv_zero_bubble, PipelineSchedule::dual_pipe_v);
  Job job = random_fsdp_job();
  job.framework = "torch-pipeline";
  job.framework_version = *rc::gen::element<std::string>("2.15.0", "2.12.1", "2.10.0", "2.9.1");
  job.layout.pp = *rc::gen::inRange<std::int64_t>(2, 5);
  const bool is_v =
      schedule == PipelineSchedule::zbv_zero_bubble || schedule == PipelineSchedule::dual_pipe_v;
  const bool is_single = schedule == PipelineSchedule::gpipe || schedule == PipelineSchedule::one_f_one_b;
  job.layout.virtual_stages = is_single ? 1 : is_v ? 2 : *rc::gen::inRange<std::int64_t>(1, 4);
  job.model.layers = job.layout.pp * job.layout.virtual_stages * *rc::gen::inRange<std::int64_t>(1, 3);
  job.train.micro_batches = 2 * job.layout.pp * *rc::gen::inRange<std::int64_t>(1, 3);
  pytorch::Options& own = pytorch::options(job);
  own.fsdp.sync_each_micro_batch = true;  // the schedule decides
  if (!is_single && schedule != PipelineSchedule::interleaved_1f1b &&
      schedule != PipelineSchedule::looped_bfs) {
    // Others split backward passes, between whose halves no stage may be sharded again.
    own.fsdp.reshard_after_forward.kind = pytorch::ReshardAfterForward::Kind::no;
  }
  set_schedule(job, schedule);
  own.pipeline.has_static_shapes = *rc::gen::arbitrary<bool>();
  if (*rc::gen::arbitrary<bool>()) {
    own.fsdp.is_used = false;
    own.ddp.is_used = true;
    own.pipeline.has_static_shapes = true;  // with dynamic ones DDP fails after some of the schedules
  }
  return job;
}

}  // namespace commlens
