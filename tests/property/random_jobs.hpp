#pragma once
#include <string>

#include <rapidcheck.h>

#include "commlens/base/result.hpp"
#include "commlens/frameworks/deepspeed/options.hpp"
#include "commlens/frameworks/frameworks.hpp"
#include "commlens/frameworks/megatron/options.hpp"
#include "commlens/model/job.hpp"
#include "tests/property/torch_jobs.hpp"

namespace commlens {

/// A job of `framework` with a random GPT of 4 to 4 * `most_quads` layers.
inline Job random_gpt(const std::string& framework, std::int64_t most_quads) {
  Job job;
  job.framework = framework;
  if (framework == "megatron") {
    job.framework_version = "core_v0.7.0";  // newer releases have laws of their own
  }
  job.model.name = "random";
  job.model.heads = job.model.kv_heads = 4;
  job.model.hidden = 16 * *rc::gen::inRange<std::int64_t>(1, 5);
  job.model.head_dim = job.model.hidden / 4;
  job.model.ffn_hidden = 4 * job.model.hidden;
  job.model.layers = 4 * *rc::gen::inRange<std::int64_t>(1, most_quads + 1);
  job.model.sequence = job.model.max_positions = 8 * *rc::gen::inRange<std::int64_t>(1, 9);
  job.model.vocab = job.model.raw_vocab = 16 * *rc::gen::inRange<std::int64_t>(1, 40);
  job.model.tied_embeddings = *rc::gen::arbitrary<bool>();
  return job;
}

/// A small random job of `framework`, one that it supports.
inline Job small_job(const std::string& framework) {
  Job job = random_gpt(framework, 3);
  job.train.micro_batch = *rc::gen::inRange<std::int64_t>(1, 4);
  job.train.micro_batches = *rc::gen::inRange<std::int64_t>(1, 6);
  job.train.dtype = *rc::gen::element(DType::fp32, DType::fp16, DType::bf16);
  job.layout.dp = *rc::gen::inRange<std::int64_t>(1, 5);
  const bool is_mixed = framework == "neox" || framework == "megatron";
  if (is_mixed) {
    job.layout.tp = *rc::gen::element<std::int64_t>(1, 2, 4);
    job.layout.pp = *rc::gen::element<std::int64_t>(1, 2, 4);
    job.train.recompute = *rc::gen::element(Recompute::none, Recompute::full);
    job.train.partition_activations = *rc::gen::arbitrary<bool>();
    deepspeed::options(job).weight_decay_groups = framework == "neox";
  }
  if (framework == "megatron") {
    job.layout.sequence_parallel = *rc::gen::arbitrary<bool>();
    megatron::options(job).variable_seq_lengths = *rc::gen::arbitrary<bool>();
    job.train.zero_stage = *rc::gen::inRange(0, 2);
  }
  if (framework == "deepspeed") {
    job.train.zero_stage = *rc::gen::inRange(0, 4);
    deepspeed::options(job).reduce_bucket_size = *rc::gen::inRange<std::int64_t>(1000, 100000);
    job.train.persistence_threshold = *rc::gen::inRange<std::int64_t>(0, 300);
  }
  return job;
}

inline Job valid(Job job) {
  Result<Job> checked = validated(std::move(job));
  RC_ASSERT(checked.has_value());
  if (const Result<void> runs = rules_of(*checked).check(*checked); !runs) {
    RC_FAIL(runs.error().message);
  }
  return *std::move(checked);
}

/// Of a framework of 2024, so of a GPT.
inline Job valid_small_gpt() {
  const std::string framework = *rc::gen::element("deepspeed", "neox", "megatron", "torch-ddp");
  return valid(small_job(framework));
}

/// Of any framework.
inline Job valid_small_job() {
  switch (*rc::gen::inRange(0, 7)) {
    case 0:
      return valid(random_fsdp_job());
    case 1:
      return valid(random_tensor_job());
    case 2:
      return valid(random_pipeline_job());
    default:
      return valid_small_gpt();
  }
}

}  // namespace commlens
