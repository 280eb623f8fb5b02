#include <gtest/gtest.h>

#include "commlens/advice/test_jobs.hpp"
#include "commlens/frameworks/commlens/options.hpp"
#include "commlens/frameworks/deepspeed/options.hpp"

namespace commlens {
namespace {

/// Our trainer, 2 layers of width 64 on 4 data ranks: 459,776 bytes of parameters in fp32 (114,944 of them),
/// of which the last module (head and final norm) is 26,112. Every parameter's count is a multiple of 4.
Job sharded(int stage) {
  Job job = small_job("commlens", 2, 64);
  job.train.zero_stage = stage;
  job.train.persistence_threshold = 0;
  return job;
}

constexpr Bytes k_much_memory{std::int64_t{1} << 40};

// ZeRO-3 gathers everything in forward, all but the last module again in backward, and reduce-scatters
// everything; ZeRO-2 reduce-scatters and gathers once. It saves the second gather: (459,776 - 26,112) 3/4. Of
// stages with the same bytes the highest is taken.
TEST(ZeroStage, IsLoweredWhereMemoryAllows) {
  const Advice advice = advised(sharded(3), {.memory = k_much_memory});
  const Recommendation* const made = find(advice, "zero_stage");
  ASSERT_NE(made, nullptr);
  EXPECT_EQ(made->flag, "--zero 2");
  EXPECT_EQ(made->wire_saved(), Bytes{(459'776 - 26'112) * 3 / 4});
  // Whole parameters instead of a quarter, and one bucket of all gradients; instead of two gathered layers of
  // 49,984 parameters, the gradients of both and the reduced quarter of one.
  EXPECT_EQ(made->memory_added(), Bytes{459'776 * 3 / 4 + 459'776 - 4 * (4 * 49'984 + 49'984 / 4)});
  EXPECT_FALSE(made->required);
}

TEST(ZeroStage, StaysWhereALowerOneDoesNotFit) {
  Job deep = sharded(3);
  deep.model.layers = 12;  // two of them gathered are little beside the shards
  const Bytes memory = advised(deep).cost.memory;
  const Advice advice = advised(deep, {.memory = memory + Bytes{1000}});
  EXPECT_EQ(find(advice, "zero_stage"), nullptr);
  EXPECT_TRUE(says(advice.not_advised, "a lower stage than ZeRO-3"));
}

TEST(ZeroStage, IsNotJudgedWithoutTheMemoryOfAGpu) {
  const Advice advice = advised(sharded(3));
  EXPECT_EQ(find(advice, "zero_stage"), nullptr);
  EXPECT_TRUE(says(advice.not_judged, "add --gpu-memory"));
}

// Stage 0 holds 16 bytes a parameter, stage 1 shares 8 of them among 4 ranks and keeps the sum of a quarter
// of the gradients, 4 bytes each: 6 - 1 = 5 x 114,944 less. An all_reduce sends what reduce_scatter and
// all_gather send.
TEST(ZeroStage, IsRaisedWhereTheJobDoesNotFit) {
  const Bytes memory = advised(sharded(0)).cost.memory;
  const Advice advice = advised(sharded(0), {.memory = memory - Bytes{1}});
  const Recommendation* const made = find(advice, "zero_stage");
  ASSERT_NE(made, nullptr);
  EXPECT_TRUE(made->required);
  EXPECT_EQ(made->flag, "--zero 1");
  EXPECT_EQ(made->memory_added(), Bytes{(-6 + 1) * 114'944});
  EXPECT_EQ(made->wire_saved(), Bytes{0});
  EXPECT_TRUE(advice.recommended.front().required);
}

TEST(ZeroStage, SaysWhenNothingFits) {
  const Advice advice = advised(sharded(0), {.memory = Bytes{1000}});
  EXPECT_EQ(find(advice, "zero_stage"), nullptr);
  EXPECT_TRUE(says(advice.not_judged, "no single setting makes it fit"));
}

/// DeepSpeed, 4 layers of width 128, vocabulary 1000: 1,053,440 parameters, 4,213,760 bytes.
Job deepspeed(int stage, std::int64_t bucket) {
  Job job = small_job("deepspeed", 4, 128);
  job.model.vocab = job.model.raw_vocab = 1000;
  job.train.zero_stage = stage;
  job.train.micro_batch = 2;
  deepspeed::options(job).reduce_bucket_size = bucket;
  return job;
}

// All gradients once by all_reduce, 2 m 3/4, or by reduces to their owners, m 3/4 on average. Every owner's
// part is a call of its own: with one bucket, 4 instead of 1 (tests/golden/deepspeed, z1_S_w4_fp32_rb50000
// and
// ..._nomultirank have the same rules with smaller buckets).
TEST(GradientReduction, ToOwnersSendsHalf) {
  const Advice advice = advised(deepspeed(1, 2'000'000));
  const Recommendation* const made = find(advice, "gradient_reduction");
  ASSERT_NE(made, nullptr);
  EXPECT_EQ(made->setting, "zero_optimization.use_multi_rank_bucket_allreduce: false in the DeepSpeed JSON");
  EXPECT_EQ(made->wire_saved(), Bytes{4'213'760 * 3 / 4});
  EXPECT_EQ(made->message_saved(), Bytes{0});
  EXPECT_EQ(made->calls_saved(), -3);
}

TEST(GradientReduction, StaysWhereOwnersReceiveAlready) {
  Job job = deepspeed(1, 2'000'000);
  deepspeed::options(job).use_multi_rank_bucket_allreduce = false;
  EXPECT_EQ(find(advised(job), "gradient_reduction"), nullptr);
  EXPECT_EQ(find(advised(deepspeed(3, 2'000'000)), "gradient_reduction"), nullptr);
}

// In 0.14.0 reduce_scatter: false sends the whole buffer of 2,000,000 elements, whatever is in it.
TEST(GradientReduction, OfWholeBuffersIsTurnedOff) {
  Job job = deepspeed(1, 2'000'000);
  job.framework_version = "0.14.0";
  deepspeed::options(job).reduce_scatter = false;
  const Advice advice = advised(job);
  const Recommendation* const made = find(advice, "gradient_reduction");
  ASSERT_NE(made, nullptr);
  EXPECT_EQ(made->setting, "zero_optimization.reduce_scatter: true in the DeepSpeed JSON");
  EXPECT_EQ(made->message_saved(), Bytes{2'000'000 * 4 - 4'213'760});
}

TEST(GradientReduction, OfOurTrainerIsThatOfItsShards) {
  Job job = sharded(1);
  trainer::options(job).all_reduce_gradients = true;
  const Advice advice = advised(job);
  const Recommendation* const made = find(advice, "gradient_reduction");
  ASSERT_NE(made, nullptr);
  EXPECT_EQ(made->wire_saved(), Bytes{459'776 * 3 / 4});
  EXPECT_EQ(made->calls_saved(), 0);
}

// ZeRO-2 reduces 4,213,760 bytes for each of 4 micro-batches, ZeRO-1 once: 3 all_reduces less, 2 m 3/4 each.
TEST(Accumulation, UnderZero1ReducesOnce) {
  Job job = deepspeed(2, 2'000'000);
  job.train.micro_batches = 4;
  const Advice advice = advised(job);
  const Recommendation* const made = find(advice, "accumulate_under_zero1");
  ASSERT_NE(made, nullptr);
  EXPECT_EQ(made->calls_saved(), 3);
  EXPECT_EQ(made->wire_saved(), Bytes{3 * 2 * 4'213'760 * 3 / 4});
  EXPECT_EQ(made->memory_added(), Bytes{4'213'760 * 3 / 4});
}

TEST(Accumulation, IsNoMatterOfOneMicroBatch) {
  EXPECT_EQ(find(advised(deepspeed(2, 2'000'000)), "accumulate_under_zero1"), nullptr);
}

// ZeRO-3 gathers and reduces in each micro-batch: one of 4 instead of 4 of 1 saves three quarters of
// everything but the loss.
TEST(MicroBatch, IsEnlargedWhereMemoryAllows) {
  Job job = sharded(3);
  job.train.micro_batches = 4;
  const Advice advice = advised(job, {.memory = k_much_memory});
  const Recommendation* const made = find(advice, "micro_batch");
  ASSERT_NE(made, nullptr);
  EXPECT_EQ(made->flag, "--micro-batch 4 --micro-batches 1");
  constexpr std::int64_t each = (3 * 459'776 - 26'112) * 3 / 4;
  EXPECT_EQ(made->wire_saved(), Bytes{3 * each});
  EXPECT_GT(made->memory_added(), Bytes{0});
  EXPECT_EQ(find(advised(job), "micro_batch"), nullptr);
  EXPECT_TRUE(says(advised(job).not_judged, "larger micro-batches"));
}

}  // namespace
}  // namespace commlens
