// Laws of what newer releases of Megatron send (docs/frameworks/megatron.md).
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "commlens/comm/volume.hpp"
#include "commlens/frameworks/frameworks.hpp"
#include "commlens/frameworks/megatron/options.hpp"
#include "commlens/frameworks/planner.hpp"
#include "tests/property/messages.hpp"
#include "tests/property/random_jobs.hpp"

namespace commlens {
namespace {

bool tossed() { return *rc::gen::arbitrary<bool>(); }

void draw_megatron_experts(Job& job) {
  megatron::Options& own = megatron::options(job);
  job.model.linear_bias = false;
  job.model.experts = 4;
  job.model.top_k = *rc::gen::inRange<std::int64_t>(1, 4);
  job.layout.sequence_parallel = job.layout.tp > 1;
  job.layout.ep = *rc::gen::element<std::int64_t>(1, 2, 4);
  own.expert_tp = *rc::gen::element<std::int64_t>(1, job.layout.tp);
  own.moe_dispatcher = *rc::gen::element<std::string>("allgather", "alltoall", "flex");
  own.balancing = {*rc::gen::element<std::string>("aux_loss", "seq_aux_loss", "global_aux_loss", "none")};
  own.balancing_coefficients = {tossed() ? 0.01 : 0.0};
  own.shared_expert_hidden = tossed() ? job.model.hidden : 0;
  own.overlaps_shared_expert = tossed();
  own.expert_capacity = tossed() ? 1.0 : 0.0;
  own.pads_to_capacity = tossed();
}

void draw_megatron_gradients(Job& job) {
  megatron::Options& own = megatron::options(job);
  job.train.zero_stage = *rc::gen::inRange(0, 2);
  own.overlap_grad_reduce = tossed();
  own.overlap_param_gather = own.overlap_grad_reduce && tossed();
  own.aligns_grad_reduce = tossed();
  own.aligns_param_gather = tossed();
  own.bucket_size = *rc::gen::element<std::int64_t>(0, 1000, 5000);
  own.instances = job.train.zero_stage > 0 && job.layout.dp % 2 == 0 && tossed() ? 2 : 1;
}

void draw_megatron_pipeline(Job& job) {
  megatron::Options& own = megatron::options(job);
  job.layout.pp = *rc::gen::element<std::int64_t>(1, 2, 3, 4);
  job.layout.virtual_stages = job.layout.pp > 1 ? *rc::gen::inRange<std::int64_t>(1, 4) : 1;
  job.train.schedule = job.layout.virtual_stages > 1 ? Schedule::interleaved : Schedule::one_f_one_b;
  job.model.layers = job.layout.pp * job.layout.virtual_stages * *rc::gen::inRange<std::int64_t>(1, 3);
  job.train.micro_batches = job.layout.pp * *rc::gen::inRange<std::int64_t>(1, 4);
  own.overlaps_p2p = tossed();
  own.overlaps_p2p_at_ends = own.overlaps_p2p && tossed();
  own.mtp_layers = *rc::gen::element<std::int64_t>(0, 0, 1, 2);
}

/// A job of any release but the oldest, with what its rules cover.
Job random_megatron_job() {
  Job job = random_gpt("megatron", 3);
  job.framework_version = *rc::gen::element<std::string>("0.9.0", "0.10.0", "0.11.0", "0.12.3", "0.13.1",
                                                         "0.14.0", "0.16.1", "0.17.1", "0.18.2", "0.19.2");
  job.layout.tp = *rc::gen::element<std::int64_t>(1, 2, 4);
  job.layout.dp = *rc::gen::element<std::int64_t>(1, 2, 4);
  job.layout.sequence_parallel = job.layout.tp > 1 && tossed();
  job.train.dtype = *rc::gen::element(DType::fp32, DType::fp16, DType::bf16);
  job.train.recompute = *rc::gen::element(Recompute::none, Recompute::full);
  draw_megatron_pipeline(job);
  draw_megatron_gradients(job);
  if (tossed()) {
    draw_megatron_experts(job);
  }
  megatron::Options& own = megatron::options(job);
  own.eval_interval = *rc::gen::element<std::int64_t>(0, 1, 2);
  own.eval_iterations = 1;
  own.log_interval = *rc::gen::inRange<std::int64_t>(1, 4);
  job.iterations = 4;
  return job;
}

Plan random_megatron_plan() {
  const Result<Job> job = validated(random_megatron_job());
  RC_PRE(job.has_value());
  Result<Plan> plan = make_plan(*job);
  RC_PRE(plan.has_value());
  return *std::move(plan);
}

using StagePair = std::tuple<Iteration, std::int64_t, std::int64_t, std::int64_t>;

TEST(MegatronLaws, WhatIsSentIsReceived) {
  ASSERT_TRUE(rc::check([] {
    const Trace trace = random_megatron_plan().trace(4);
    std::map<StagePair, std::int64_t> balance;
    for (const RankStream& stream : trace.streams) {
      for (const Rank rank : stream.ranks) {
        for (const CommEvent& event : stream.events) {
          const CommOp& op = trace.op(event.op);
          if (is_point_to_point(op.kind)) {
            const std::vector<Rank> pair = trace.groups.members(op.group, rank);
            balance[{event.iteration, pair[0].value, pair[1].value, message_bytes(op).value}] +=
                op.kind == CommKind::send ? 1 : -1;
          }
        }
      }
    }
    for (const auto& [pair, count] : balance) {
      RC_ASSERT(count == 0);
    }
  }));
}

/// p from 2 to 8, v from 1 to 5, m from 1 to 64 where the schedule takes them.
TEST(MegatronLaws, EveryPipelineReceivesWhatItSends) {
  int plans = 0;
  for (std::int64_t stages = 2; stages <= 8; ++stages) {
    for (std::int64_t chunks = 1; chunks <= 5; ++chunks) {
      for (const std::int64_t batches : {1, 2, 3, 5, 8, 21, 24, 40, 63, 64}) {
        Job job;
        job.framework = "megatron";
        job.model = {.name = "deep", .layers = stages * chunks, .hidden = 16, .heads = 2, .kv_heads = 2};
        job.model.head_dim = 8;
        job.model.ffn_hidden = 64;
        job.model.sequence = job.model.max_positions = 8;
        job.model.vocab = job.model.raw_vocab = 128;
        job.layout.pp = stages;
        job.layout.virtual_stages = chunks;
        job.train.schedule = chunks > 1 ? Schedule::interleaved : Schedule::one_f_one_b;
        job.train.micro_batch = 1;
        job.train.micro_batches = batches;
        const Result<Job> valid = validated(job);
        const Result<Plan> plan = valid ? make_plan(*valid) : tl::unexpected(valid.error());
        if (!plan) {
          EXPECT_GT(chunks, 1) << plan.error().message;
          continue;
        }
        EXPECT_EQ(unmatched_messages(plan->trace(2)), 0) << stages << " " << chunks << " " << batches;
        ++plans;
      }
    }
  }
  // All of the 7 x 10 without chunks, and with them those whose last group of micro-batches is as long as the
  // pipeline, or none: m >= p, and m mod p = 0.
  EXPECT_GE(plans, 70 + 4 * 17);
}

using GroupCall = std::tuple<Iteration, CommKind, DType, std::int64_t>;

/// Else they would wait for ever.
TEST(MegatronLaws, MembersOfAGroupMakeTheSameCallsInTheSameOrder) {
  ASSERT_TRUE(rc::check([] {
    const Trace trace = random_megatron_plan().trace(4);
    std::map<std::vector<Rank>, std::map<Rank, std::vector<GroupCall>>> calls;
    for (const RankStream& stream : trace.streams) {
      for (const Rank rank : stream.ranks) {
        for (const CommEvent& event : stream.events) {
          const CommOp& op = trace.op(event.op);
          if (!is_point_to_point(op.kind)) {
            calls[trace.groups.members(op.group, rank)][rank].emplace_back(event.iteration, op.kind, op.dtype,
                                                                           op.input.value);
          }
        }
      }
    }
    for (const auto& [members, by_rank] : calls) {
      RC_ASSERT(by_rank.size() == members.size());
      for (const auto& [rank, made] : by_rank) {
        RC_ASSERT(made == by_rank.begin()->second);
      }
    }
  }));
}

}  // namespace
}  // namespace commlens
