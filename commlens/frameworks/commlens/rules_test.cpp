#include <functional>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "commlens/comm/volume.hpp"
#include "commlens/frameworks/commlens/options.hpp"
#include "commlens/frameworks/frameworks.hpp"
#include "commlens/frameworks/planner.hpp"

namespace commlens {
namespace {

/// h = 8, 2 heads, s = 4, V = 16, b = 2: A = b s h = 64 elements, b s = 8. Parameters of a block: ln1 8 8,
/// qkv 192 24, proj 64 8, ln2 8 8, fc1 256 32, fc2 256 8: 872; wte, head 128 each, norm 16. One layer: 1144
/// without positions.
Job small_job(std::int64_t layers = 1) {
  Job job;
  job.framework = "commlens";
  ModelConfig& model = job.model;
  model.layers = layers;
  model.hidden = 8;
  model.heads = 2;
  model.sequence = 4;
  model.vocab = 16;
  job.train.micro_batch = 2;
  job.train.persistence_threshold = 100;
  return job;
}

Job small_job(const std::function<void(Job&)>& change, std::int64_t layers = 1) {
  Job job = small_job(layers);
  change(job);
  return job;
}

/// "forward all_reduce tp 256 B": phase, kind, axis and size of the group, message bytes.
std::string described(const Trace& trace, const CommOp& op) {
  const std::string group =
      fmt::format("{}{}", name_of(trace.groups.axis(op.group)), trace.groups.size(op.group));
  return fmt::format("{} {} {} {} B", name_of(op.phase), name_of(op.kind), group,
                     is_point_to_point(op.kind) ? (op.input * op.dtype).value + (op.output * op.dtype).value
                                                : message_bytes(op).value);
}

using Counts = std::map<std::string, int>;

/// What a rank of `stage` issues in an iteration, each kind of call with its count; the loss at the end,
/// which every job of several ranks has, is skipped.
Counts calls(const Job& open, std::int64_t stage = 0) {
  const Result<Job> job = validated(open);
  EXPECT_TRUE(job.has_value()) << job.error().message;
  const Mesh mesh = job->layout.mesh();
  const Result<Plan> plan = make_plan(*job, mesh.rank_at({{Axis::pp, stage}}));
  EXPECT_TRUE(plan.has_value()) << plan.error().message;
  EXPECT_TRUE(plan->unverified.empty());
  EXPECT_TRUE(plan->classes.at(0).init.steps.empty());
  const Trace trace = plan->trace_of({0});
  Counts counts;
  for (const CommEvent& event : trace.streams.at(0).events) {
    ++counts[described(trace, trace.op(event.op))];
  }
  counts.erase(fmt::format("other all_reduce world{} 8 B", mesh.ranks()));
  return counts;
}

TEST(Trainer, OneRankSendsNothing) {
  for (int stage = 0; stage < 4; ++stage) {
    EXPECT_EQ(calls(small_job([&](Job& job) {
                job.train.zero_stage = stage;
                job.train.gradient_clipping = 1;
                job.train.recompute = Recompute::full;
              })),
              Counts())
        << "ZeRO-" << stage;
  }
}

TEST(Trainer, EndsEveryIterationWithTheLoss) {
  const Plan plan = make_plan(validated(small_job([](Job& job) { job.layout.dp = 3; })).value()).value();
  const Trace trace = plan.trace_of({0});
  EXPECT_EQ(described(trace, trace.op(trace.streams.at(0).events.back().op)), "other all_reduce world3 8 B");
}

TEST(Trainer, StartsWithNothingAndRepeatsItself) {
  const Plan plan = make_plan(validated(small_job([](Job& job) { job.layout.dp = 2; })).value()).value();
  EXPECT_EQ(plan.classes.at(0).iterations.size(), 1U);
  EXPECT_EQ(plan.tables.provenance.framework, "commlens 0.1");
  EXPECT_TRUE(plan.tables.provenance.verified);
}

// Data parallel. Buckets of 400 elements, reversed: head 128, norm 16, fc2 264 -> 408; fc1 288, ln2 16, proj
// 72, qkv.bias 24 -> 400; qkv.weight 192, ln1 16, wte 128 -> 336.
Job bucketed(int stage, std::int64_t ranks, std::int64_t micro_batches) {
  return small_job([&](Job& job) {
    job.train.zero_stage = stage;
    job.train.micro_batches = micro_batches;
    job.layout.dp = ranks;
    trainer::options(job).bucket = Bytes{1600};
  });
}

TEST(Trainer, Zero0ReducesUnpaddedBucketsOnce) {
  EXPECT_EQ(calls(bucketed(0, 3, 4)), (Counts{{"backward all_reduce dp3 1632 B", 1},
                                              {"backward all_reduce dp3 1600 B", 1},
                                              {"backward all_reduce dp3 1344 B", 1}}));
}

TEST(Trainer, Zero1ScattersPaddedBucketsOnceAndGathersParameters) {  // 408, 402, 336
  EXPECT_EQ(calls(bucketed(1, 3, 4)), (Counts{{"backward reduce_scatter dp3 1632 B", 1},
                                              {"backward reduce_scatter dp3 1608 B", 1},
                                              {"backward reduce_scatter dp3 1344 B", 1},
                                              {"optimizer all_gather dp3 1632 B", 1},
                                              {"optimizer all_gather dp3 1608 B", 1},
                                              {"optimizer all_gather dp3 1344 B", 1}}));
}

TEST(Trainer, Zero2ScattersInEveryMicroBatch) {
  EXPECT_EQ(calls(bucketed(2, 3, 4)), (Counts{{"backward reduce_scatter dp3 1632 B", 4},
                                              {"backward reduce_scatter dp3 1608 B", 4},
                                              {"backward reduce_scatter dp3 1344 B", 4},
                                              {"optimizer all_gather dp3 1632 B", 1},
                                              {"optimizer all_gather dp3 1608 B", 1},
                                              {"optimizer all_gather dp3 1344 B", 1}}));
}

TEST(Trainer, DeepspeedLikeReducesPaddedBuckets) {
  Job job = bucketed(1, 3, 1);
  trainer::options(job).all_reduce_gradients = true;
  EXPECT_EQ(calls(job), (Counts{{"backward all_reduce dp3 1632 B", 1},
                                {"backward all_reduce dp3 1608 B", 1},
                                {"backward all_reduce dp3 1344 B", 1},
                                {"optimizer all_gather dp3 1632 B", 1},
                                {"optimizer all_gather dp3 1608 B", 1},
                                {"optimizer all_gather dp3 1344 B", 1}}));
}

// Units of ZeRO-3 above 100 elements: embedding 128, block 704 (qkv 192, fc1 256, fc2 256), head 128;
// persistent: 184. Over 5 ranks padded to 130, 705, 130, 185: in fp32 520, 2820, 520, 740 bytes.
Job sharded(std::int64_t ranks) {
  return small_job([&](Job& job) {
    job.train.zero_stage = 3;
    job.train.micro_batches = 2;
    job.layout.dp = ranks;
  });
}

TEST(Trainer, Zero3KeepsTheLastModuleBetweenItsPasses) {
  EXPECT_EQ(calls(sharded(5)), (Counts{{"forward all_gather dp5 520 B", 2 * 2},   // embedding, head
                                       {"forward all_gather dp5 2820 B", 2},      // block
                                       {"backward all_gather dp5 520 B", 2},      // embedding
                                       {"backward all_gather dp5 2820 B", 2},     // block
                                       {"backward reduce_scatter dp5 520 B", 4},  // embedding, head
                                       {"backward reduce_scatter dp5 2820 B", 2},
                                       {"backward reduce_scatter dp5 740 B", 2},
                                       {"optimizer all_gather dp5 740 B", 1}}));
}

TEST(Trainer, Zero3GathersATiedTableForEachOfItsModules) {
  Job job = sharded(5);
  job.model.tied_embeddings = true;
  job.train.micro_batches = 1;
  EXPECT_EQ(calls(job), (Counts{{"forward all_gather dp5 520 B", 2},
                                {"forward all_gather dp5 2820 B", 1},
                                {"backward all_gather dp5 520 B", 1},
                                {"backward all_gather dp5 2820 B", 1},
                                {"backward reduce_scatter dp5 520 B", 2},
                                {"backward reduce_scatter dp5 2820 B", 1},
                                {"backward reduce_scatter dp5 740 B", 1},
                                {"optimizer all_gather dp5 740 B", 1}}));
}

// Over 4 ranks: units 128, 704, 128 and persistent 184; shards 32, 176, 32, 46 elements.
TEST(Trainer, HpzGathersForBackwardWithinBlocks) {
  Job job = sharded(4);
  job.train.micro_batches = 1;
  job.train.hpz = 2;
  EXPECT_EQ(calls(job), (Counts{{"forward all_gather dp4 512 B", 2},
                                {"forward all_gather dp4 2816 B", 1},
                                {"backward all_gather dp2 512 B", 1},
                                {"backward all_gather dp2 2816 B", 1},
                                {"backward reduce_scatter dp4 512 B", 2},
                                {"backward reduce_scatter dp4 2816 B", 1},
                                {"backward reduce_scatter dp4 736 B", 1},
                                {"optimizer all_gather dp4 736 B", 1}}));
}

TEST(Trainer, HpzBlocksAreConsecutiveDataRanksOfOneTensorPosition) {
  Job job = sharded(4);
  job.layout.tp = 2;
  job.train.hpz = 2;
  job.train.quantized_gradients = true;
  job.train.persistence_threshold = 0;
  const Trace trace = make_plan(validated(job).value()).value().trace_of({0});
  std::map<CommKind, std::vector<std::vector<Rank>>> groups;
  for (const CommEvent& event : trace.streams.at(0).events) {
    const CommOp& op = trace.op(event.op);
    const std::vector<Rank> members = trace.groups.members(op.group, Rank{5});
    const bool is_backward_gather = op.kind == CommKind::all_gather && op.phase == Phase::backward;
    if (is_backward_gather || op.kind == CommKind::all_to_all) {
      groups[op.kind].push_back(members);
    }
  }
  EXPECT_EQ(groups[CommKind::all_gather].at(0), (std::vector<Rank>{{5}, {7}}));
  EXPECT_EQ(groups[CommKind::all_to_all].at(0), (std::vector<Rank>{{5}, {7}}));
  EXPECT_EQ(groups[CommKind::all_to_all].at(1), (std::vector<Rank>{{1}, {5}}));
}

// q8(32) = 36, q8(176) = 180; four ranks: 144, 720.
TEST(Trainer, QwzGathersBytesAndTheirScales) {
  Job job = sharded(4);
  job.train.micro_batches = 1;
  job.train.quantized_weights = true;
  EXPECT_EQ(calls(job), (Counts{{"forward all_gather dp4 144 B", 2},
                                {"forward all_gather dp4 720 B", 1},
                                {"backward all_gather dp4 144 B", 1},
                                {"backward all_gather dp4 720 B", 1},
                                {"backward reduce_scatter dp4 512 B", 2},
                                {"backward reduce_scatter dp4 2816 B", 1},
                                {"backward reduce_scatter dp4 736 B", 1},
                                {"optimizer all_gather dp4 736 B", 1}}));
}

// q4(32) = 20, q4(176) = 92. Nodes of 2: hop 1 2·2·q4 = 80, 368; hop 2 2·q4 = 40, 184.
TEST(Trainer, QgzTakesTwoHops) {
  Job job = sharded(4);
  job.train.micro_batches = 1;
  job.train.quantized_gradients = true;
  job.train.hpz = 2;
  const Counts two_hops = calls(job);
  EXPECT_EQ(two_hops.at("backward all_to_all dp2 80 B"), 2);
  EXPECT_EQ(two_hops.at("backward all_to_all dp2 368 B"), 1);
  EXPECT_EQ(two_hops.at("backward all_to_all dp2 40 B"), 2);
  EXPECT_EQ(two_hops.at("backward all_to_all dp2 184 B"), 1);
  EXPECT_EQ(two_hops.at("backward reduce_scatter dp4 736 B"), 1);
  EXPECT_EQ(two_hops.size(), 10U);
  job.train.hpz = 1;  // one node: one hop of 4·q4
  const Counts one_hop = calls(job);
  EXPECT_EQ(one_hop.at("backward all_to_all dp4 80 B"), 2);
  EXPECT_EQ(one_hop.at("backward all_to_all dp4 368 B"), 1);
}

// Tensor parallel: A = 256 bytes in fp32, b s = 32 bytes.
Job split(const std::function<void(Job&)>& change = [](Job&) {}) {
  return small_job(
      [&](Job& job) {
        job.layout.tp = 2;
        job.train.micro_batches = 3;
        change(job);
      },
      2);
}

TEST(Trainer, TensorRanksReduceEveryBlockTwiceAPass) {
  EXPECT_EQ(calls(split()), (Counts{{"forward all_reduce tp2 256 B", 3 * (1 + 2 * 2)},
                                    {"forward all_reduce tp2 32 B", 3 * 3},
                                    {"backward all_reduce tp2 256 B", 3 * (1 + 2 * 2)}}));
}

TEST(Trainer, ParallelResidualSavesOneReductionForward) {
  EXPECT_EQ(calls(split([](Job& job) { job.model.parallel_residual = true; })),
            (Counts{{"forward all_reduce tp2 256 B", 3 * (1 + 2)},
                    {"forward all_reduce tp2 32 B", 3 * 3},
                    {"backward all_reduce tp2 256 B", 3 * (1 + 2 * 2)}}));
}

TEST(Trainer, SequenceParallelismGathersAndScatters) {  // 6 h = 192 bytes, 2 h = 64
  EXPECT_EQ(calls(split([](Job& job) { job.layout.sequence_parallel = true; })),
            (Counts{{"forward all_gather tp2 256 B", 3 * (2 * 2 + 1)},
                    {"forward reduce_scatter tp2 256 B", 3 * (1 + 2 * 2)},
                    {"forward all_reduce tp2 32 B", 3 * 3},
                    {"backward all_gather tp2 256 B", 3 * (1 + 2 * 2)},
                    {"backward reduce_scatter tp2 256 B", 3 * (2 * 2 + 1)},
                    {"backward all_reduce tp2 192 B", 3 * 2},
                    {"backward all_reduce tp2 64 B", 3}}));
}

TEST(Trainer, SequenceParallelParallelResidualScattersOnce) {
  EXPECT_EQ(calls(split([](Job& job) {
              job.layout.sequence_parallel = true;
              job.model.parallel_residual = true;
              job.train.micro_batches = 1;
            })),
            (Counts{{"forward all_gather tp2 256 B", 5},
                    {"forward reduce_scatter tp2 256 B", 3},
                    {"forward all_reduce tp2 32 B", 3},
                    {"backward all_gather tp2 256 B", 3},
                    {"backward reduce_scatter tp2 256 B", 5},
                    {"backward all_reduce tp2 192 B", 2},
                    {"backward all_reduce tp2 64 B", 1}}));
}

TEST(Trainer, SequenceParallelismSumsTheGradientOfLearnedPositions) {  // 6 positions of 8: 192 bytes, as 6 h
  const auto change = [](Job& job) {
    job.layout.sequence_parallel = true;
    job.model.positions = Positions::learned;
    job.model.max_positions = 6;
  };
  EXPECT_EQ(calls(split(change)).at("backward all_reduce tp2 192 B"), 3 * 2 + 3);
}

TEST(Trainer, FullRecomputationRunsBlocksAgain) {
  EXPECT_EQ(calls(split([](Job& job) { job.train.recompute = Recompute::full; })),
            (Counts{{"forward all_reduce tp2 256 B", 15},
                    {"forward all_reduce tp2 32 B", 9},
                    {"recompute all_reduce tp2 256 B", 3 * 2 * 2},
                    {"backward all_reduce tp2 256 B", 15}}));
}

TEST(Trainer, SelectiveRecomputationSendsNothing) {
  EXPECT_EQ(calls(split([](Job& job) { job.train.recompute = Recompute::selective; })), calls(split()));
}

TEST(Trainer, PartitionedActivationsComeBackBeforeEachBlock) {
  const Counts counts = calls(split([](Job& job) {
    job.train.recompute = Recompute::full;
    job.train.partition_activations = true;
  }));
  EXPECT_EQ(counts.at("recompute all_gather tp2 256 B"), 3 * 2);
  EXPECT_EQ(counts.at("recompute all_reduce tp2 256 B"), 3 * 2 * 2);
}

// Pipeline.
Job piped(const std::function<void(Job&)>& change = [](Job&) {}) {
  return small_job(
      [&](Job& job) {
        job.layout.pp = 2;
        job.train.micro_batches = 4;
        change(job);
      },
      4);
}

TEST(Trainer, StagesExchangeAnActivationAndItsGradientPerMicroBatch) {
  for (const Schedule schedule : {Schedule::one_f_one_b, Schedule::gpipe}) {
    const Job job = piped([&](Job& changed) { changed.train.schedule = schedule; });
    EXPECT_EQ(calls(job, 0), (Counts{{"forward send pp2 256 B", 4}, {"backward recv pp2 256 B", 4}}));
    EXPECT_EQ(calls(job, 1), (Counts{{"forward recv pp2 256 B", 4}, {"backward send pp2 256 B", 4}}));
  }
}

TEST(Trainer, SchedulesDifferInOrder) {
  const auto phases = [](Schedule schedule) {
    const Job job = piped([&](Job& changed) { changed.train.schedule = schedule; });
    const Trace trace = make_plan(validated(job).value()).value().trace_of({0});
    std::string order;
    for (const CommEvent& event : trace.streams.at(0).events) {
      order += name_of(trace.op(event.op).phase).front();
    }
    return order;
  };
  EXPECT_EQ(phases(Schedule::gpipe), "ffffbbbbo");
  EXPECT_EQ(phases(Schedule::one_f_one_b), "ffbfbfbbo");
}

TEST(Trainer, InterleavedStagesCloseTheRing) {
  const Job job = piped([](Job& changed) { changed.layout.virtual_stages = 2; });
  EXPECT_EQ(calls(job, 0), (Counts{{"forward send pp2 256 B", 8},
                                   {"forward recv pp2 256 B", 4},
                                   {"backward recv pp2 256 B", 8},
                                   {"backward send pp2 256 B", 4}}));
  EXPECT_EQ(calls(job, 1), (Counts{{"forward send pp2 256 B", 4},
                                   {"forward recv pp2 256 B", 8},
                                   {"backward recv pp2 256 B", 4},
                                   {"backward send pp2 256 B", 8}}));
}

TEST(Trainer, SequenceParallelStagesExchangeShards) {
  const Counts counts = calls(piped([](Job& job) {
    job.layout.tp = 2;
    job.layout.sequence_parallel = true;
  }));
  EXPECT_EQ(counts.at("forward send pp2 128 B"), 4);
}

TEST(Trainer, BothEndsSumTheGradientOfATiedTable) {
  const auto tied = [](int stage, std::int64_t data) {
    return piped([&](Job& job) {
      job.model.tied_embeddings = true;
      job.train.zero_stage = stage;
      job.train.dtype = DType::bf16;
      job.layout.dp = data;
      job.layout.pp = 3;
    });
  };
  // 128 elements: bf16 whole in stage 0, fp32 shards of 130 / 5 = 26 elements in the others.
  EXPECT_EQ(calls(tied(0, 5), 0).at("optimizer all_reduce pp2 256 B"), 1);
  EXPECT_EQ(calls(tied(0, 5), 1).count("optimizer all_reduce pp2 256 B"), 0U);
  EXPECT_EQ(calls(tied(0, 5), 2).at("optimizer all_reduce pp2 256 B"), 1);
  for (int stage = 1; stage < 4; ++stage) {
    EXPECT_EQ(calls(tied(stage, 5), 2).at("optimizer all_reduce pp2 104 B"), 1) << "ZeRO-" << stage;
    EXPECT_EQ(calls(tied(stage, 1), 0).at("optimizer all_reduce pp2 512 B"), 1) << "ZeRO-" << stage;
  }
}

TEST(Trainer, Zero3InAPipelineGathersEveryModuleTwiceAMicroBatch) {
  const Job job = piped([](Job& changed) {
    changed.train.zero_stage = 3;
    changed.layout.dp = 2;
    changed.train.recompute = Recompute::full;
  });
  // Stage 1: two blocks of 704 and the head of 128; persistent 2 * 168 + 16 = 352.
  EXPECT_EQ(calls(job, 1), (Counts{{"forward recv pp2 256 B", 4},
                                   {"forward all_gather dp2 2816 B", 8},
                                   {"forward all_gather dp2 512 B", 4},
                                   {"backward all_gather dp2 2816 B", 8},
                                   {"backward all_gather dp2 512 B", 4},
                                   {"backward reduce_scatter dp2 2816 B", 8},
                                   {"backward reduce_scatter dp2 512 B", 4},
                                   {"backward reduce_scatter dp2 1408 B", 4},
                                   {"backward send pp2 256 B", 4},
                                   {"optimizer all_gather dp2 1408 B", 1}}));
}

TEST(Trainer, TheNormSpansTheRanksWhosePartsDiffer) {
  const auto clipped = [](int stage) {
    return piped([&](Job& job) {
      job.layout.dp = 3;
      job.layout.tp = 2;
      job.train.zero_stage = stage;
      job.train.gradient_clipping = 1;
    });
  };
  EXPECT_EQ(calls(clipped(0)).at("optimizer all_reduce model4 4 B"), 1);
  EXPECT_EQ(calls(clipped(1)).at("optimizer all_reduce world12 4 B"), 1);
}

TEST(Trainer, CallsNameTheSectionThatMakesThem) {
  const Job job = piped([](Job& changed) { changed.layout.dp = changed.layout.tp = 2; });
  const Plan plan = make_plan(validated(job).value()).value();
  for (const Rule& rule : plan.tables.rules()) {
    EXPECT_TRUE(rule.name.empty() || rule.source.starts_with("docs/training.md#")) << rule.name;
  }
  EXPECT_GT(plan.tables.rules().size(), 5U);
}

struct Refusal {
  const char* expected;
  std::function<void(Job&)> change;
};

TEST(Trainer, RefusesByNameWhatItDoesNotDo) {
  const std::vector<Refusal> refusals = {
      {"--cp", [](Job& job) { job.layout.cp = 2; }},
      {"mixtures of experts",
       [](Job& job) {
         job.model.experts = job.layout.ep = job.layout.dp = 2;
         job.model.top_k = 1;
       }},
      {"family gpt", [](Job& job) { job.model.family = Family::llama; }},
      {"heads", [](Job& job) { job.model.kv_heads = 1; }},
      {"replicate", [](Job& job) { job.layout.replicate = 2; }},
      {"replicate", [](Job& job) { job.layout.replicated_tp = true; }},
      {"4 layers do not fill 5 pipeline parts", [](Job& job) { job.layout.pp = 5; }},
      {"--virtual-stages", [](Job& job) { job.train.schedule = Schedule::interleaved; }},
      {"divisible by pp (2)",
       [](Job& job) {
         job.layout.pp = job.layout.virtual_stages = 2;
         job.train.micro_batches = 3;
       }},
      {"--hpz is part of ZeRO++", [](Job& job) { job.train.hpz = 2; }},
      {"--qwz is part of ZeRO++", [](Job& job) { job.train.quantized_weights = true; }},
      {"--qgz is part of ZeRO++", [](Job& job) { job.train.quantized_gradients = true; }},
      {"--hpz 3: it must divide dp 4",
       [](Job& job) {
         job.train.zero_stage = 3;
         job.train.hpz = 3;
         job.layout.dp = 4;
       }},
      {"--deepspeed-like", [](Job& job) { trainer::options(job).all_reduce_gradients = true; }},
      {"use --recompute full", [](Job& job) { job.train.partition_activations = true; }},
      {"use --tp of 2 or more",
       [](Job& job) {
         job.train.partition_activations = true;
         job.train.recompute = Recompute::full;
       }},
      {"sequence parallelism splits",
       [](Job& job) {
         job.train.partition_activations = job.layout.sequence_parallel = true;
         job.train.recompute = Recompute::full;
         job.layout.tp = 2;
       }},
      {"--persistence-threshold -1", [](Job& job) { job.train.persistence_threshold = -1; }},
      {"--bucket 0", [](Job& job) { trainer::options(job).bucket = Bytes{0}; }},
  };
  for (const Refusal& refusal : refusals) {
    const Result<Job> job = validated(small_job(refusal.change, 4));
    ASSERT_TRUE(job.has_value()) << refusal.expected << ": " << job.error().message;
    const Result<Plan> plan = make_plan(*job);
    ASSERT_FALSE(plan.has_value()) << refusal.expected;
    EXPECT_NE(plan.error().message.find(refusal.expected), std::string::npos) << plan.error().message;
  }
}

}  // namespace
}  // namespace commlens
