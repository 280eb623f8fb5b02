// Two layers of h = 8, two heads of 4, one of keys, sequence 16, counted by hand.
#include <cstdint>
#include <string_view>
#include <utility>

#include <gtest/gtest.h>

#include "commlens/frameworks/frameworks.hpp"
#include "commlens/frameworks/planner.hpp"
#include "commlens/frameworks/torchtitan/options.hpp"

namespace commlens::torchtitan {
namespace {

Job two_layers(std::string_view version) {
  Job job;
  job.framework = "torchtitan";
  job.framework_version = version;
  ModelConfig& model = job.model;
  model.name = "two layers";
  model.family = Family::llama;
  model.gated_mlp = true;
  model.linear_bias = model.qkv_bias = model.norm_bias = false;
  model.layers = 2;
  model.hidden = 8;
  model.heads = 2;
  model.kv_heads = 2;
  model.head_dim = 4;
  model.ffn_hidden = 12;
  model.vocab = model.raw_vocab = 32;
  model.sequence = model.max_positions = 16;
  job.train.recompute = Recompute::selective;
  job.train.gradient_clipping = 1;
  options(job).loss_chunks = 0;
  options(job).seed = 1;
  return job;
}

struct Counts {
  std::int64_t calls = 0;
  std::int64_t bytes = 0;
};

/// The calls of a kind that a rule has in a steady iteration.
Counts counts_of(const Job& job, CommKind kind, std::string_view rule) {
  const Plan plan = make_plan(validated(job).value()).value();
  Counts counts;
  for (const PlanStep& step : plan.classes.front().at(plan.steady_iteration()).steps) {
    if (step.kind != PlanStep::Kind::call) {
      continue;
    }
    const CommOp& op = plan.tables.op(step.op());
    if (op.kind == kind && plan.tables.rule(op.rule).name.starts_with(rule)) {
      ++counts.calls;
      counts.bytes += op.input.value * size_of(op.dtype);
    }
  }
  return counts;
}

/// Forward 1 of the embedding and 2 of each layer, backward 1 of the norm and 2 of each; computed again 2 of
/// each, unless they are saved.
TEST(TitanBehaviour, ReleasesBefore03SaveWhatTheyScatter) {
  for (const auto& [version, calls] : {std::pair{"0.3.0", 14}, {"0.2.2", 10}, {"0.1.0", 10}}) {
    Job job = two_layers(version);
    job.layout.tp = 2;
    job.layout.sequence_parallel = true;
    EXPECT_EQ(counts_of(job, CommKind::reduce_scatter, "titan.sum").calls, calls) << version;
  }
}

/// Keys and values of 8 tokens, 8 each, in bf16: 256 bytes, in each layer forward and backward; their
/// gradients in fp32, 512 bytes, twice in each layer.
TEST(TitanBehaviour, ReleasesBefore03GoRoundARing) {
  Job job = two_layers("0.2.2");
  job.layout.cp = 2;
  const Counts gathers = counts_of(job, CommKind::all_gather, "context.");
  EXPECT_EQ(gathers.calls, 4);
  EXPECT_EQ(gathers.bytes, 4 * 256);
  const Counts gradients = counts_of(job, CommKind::all_to_all, "context.");
  EXPECT_EQ(gradients.calls, 4);
  EXPECT_EQ(gradients.bytes, 4 * 512);
  EXPECT_EQ(counts_of(job, CommKind::all_gather, "titan.gather_keys").calls, 0);
}

/// 0.3.0 gathers them apart, once more for what is computed again.
TEST(TitanBehaviour, Release03GathersKeysAndValuesApart) {
  Job job = two_layers("0.3.0");
  job.layout.cp = 2;
  EXPECT_EQ(counts_of(job, CommKind::all_gather, "titan.gather_keys").calls, 8);
  EXPECT_EQ(counts_of(job, CommKind::reduce_scatter, "titan.reduce_key").calls, 4);
}

TEST(TitanBehaviour, OnlyTheRecordedReleaseIsVerified) {
  EXPECT_EQ(make_plan(validated(two_layers("0.3.0")).value()).value().unverified.size(), 1U);  // the model
  EXPECT_EQ(make_plan(validated(two_layers("0.2.2")).value()).value().unverified.size(), 2U);
}

}  // namespace
}  // namespace commlens::torchtitan
