#include <gtest/gtest.h>

#include "commlens/advice/test_jobs.hpp"
#include "commlens/frameworks/commlens/options.hpp"
#include "commlens/frameworks/deepspeed/options.hpp"
#include "commlens/frameworks/torch/options.hpp"

namespace commlens {
namespace {

/// The model of tests/golden/deepspeed/z3_S_w4_fp32_p200: 4 layers of width 128, vocabulary 1000, 4 ranks.
Job zero3(std::int64_t threshold) {
  Job job = small_job("deepspeed", 4, 128);
  job.model.vocab = job.model.raw_vocab = 1000;
  job.train.zero_stage = 3;
  job.train.micro_batch = 2;
  job.train.persistence_threshold = threshold;
  deepspeed::options(job).reduce_bucket_size = 2'000'000;
  deepspeed::options(job).overlap_comm = true;
  return job;
}

// At 200 elements the 6 vectors of 128 of each layer (two norms of two, proj.bias, fc2.bias) and the 2 of the
// final norm are gathered one by one: 6 x 4 + 2 = 26 calls of 512 bytes. At 0 they come with the one large
// gather of the parameters. The recorded runs z3_S_w4_fp32_p200 and _p0 have 27 + 1 + 1 and 1 + 1 + 1 calls
// in iteration 2, and 4,213,760 bytes of all_gather each.
TEST(PersistenceThreshold, SavesTheGathersOfSingleParameters) {
  const Advice advice = advised(zero3(200));
  const Recommendation* const made = find(advice, "persistence_threshold");
  ASSERT_NE(made, nullptr);
  EXPECT_EQ(made->flag, "--persistence-threshold 0");
  EXPECT_EQ(made->setting, "zero_optimization.stage3_param_persistence_threshold: 0 in the DeepSpeed JSON");
  EXPECT_EQ(made->before.per_rank.calls, 29);
  EXPECT_EQ(made->before.per_rank.small_calls, 27);  // the gathers, and the norm
  EXPECT_EQ(made->calls_saved(), 26);
  EXPECT_EQ(made->message_saved(), Bytes{0});
  EXPECT_EQ(made->wire_saved(), Bytes{0});
  // At the turn from forward to backward so small a model is gathered whole, whatever is kept before.
  EXPECT_EQ(made->memory_added(), Bytes{0});
  EXPECT_EQ(made->before.all_ranks.calls, 4 * 29);
}

TEST(PersistenceThreshold, StaysWhereEveryParameterIsGatheredWithItsLayer) {
  const Advice advice = advised(zero3(0));
  EXPECT_EQ(find(advice, "persistence_threshold"), nullptr);
  EXPECT_TRUE(says(advice.not_advised, "persistence threshold"));
}

TEST(PersistenceThreshold, StaysWhereSmallMessagesAreFew) {
  const Advice advice = advised(zero3(200), {.small_share = 0.94});  // 27 / 29 = 0.931
  EXPECT_EQ(find(advice, "persistence_threshold"), nullptr);
  EXPECT_TRUE(says(advice.not_advised, "below the share of 94 %"));
  EXPECT_NE(find(advised(zero3(200), {.small_share = 0.93}), "persistence_threshold"), nullptr);
}

TEST(PersistenceThreshold, MeansNothingBelowStage3) {
  Job job = zero3(200);
  job.train.zero_stage = 2;
  EXPECT_EQ(find(advised(job), "persistence_threshold"), nullptr);
}

/// Our trainer, 2 layers of width 64, 4 data ranks, buckets of 64 KiB in fp32. Bytes of a layer: norms 4 x
/// 256, qkv 49,152 + 768, proj 16,384 + 256, fc1 65,536 + 1,024, fc2 65,536 + 256; embeddings 25,600 and
/// 8,192, the final norm 512, the head 25,600: 459,776 in all.
Job bucketed() {
  Job job = small_job("commlens", 2, 64);
  trainer::options(job).bucket = {64 * 1024};
  return job;
}

// From the end, a bucket closes when it reaches 64 KiB: head + norm + fc2 | fc1 | ln2 + proj + qkv (67,072) |
// ln1 + fc2 | fc1 | ln2 + proj + qkv | ln1 + embeddings: 7 calls. Buckets of 512 KiB hold everything: 1 call.
// The loss is one more call either way.
TEST(BucketSize, MergesCallsWithTheSameBytes) {
  const Advice advice = advised(bucketed());
  const Recommendation* const made = find(advice, "bucket_size");
  ASSERT_NE(made, nullptr);
  EXPECT_EQ(made->flag, "--bucket 524288");
  EXPECT_EQ(made->before.per_rank.calls, 8);
  EXPECT_EQ(made->after.per_rank.calls, 2);
  EXPECT_EQ(made->after.per_rank.message, made->before.per_rank.message);
  EXPECT_EQ(made->before.per_rank.message, Bytes{459'776 + 8});
  EXPECT_EQ(made->before.per_rank.wire, Bytes{459'776 * 3 / 2 + 12});  // 2 m (n - 1) / n with n = 4
  EXPECT_EQ(made->memory_added(), Bytes{0});
}

TEST(BucketSize, StaysWhereOneBucketHoldsAll) {
  Job job = bucketed();
  trainer::options(job).bucket = {512 * 1024};
  const Advice advice = advised(job);
  EXPECT_EQ(find(advice, "bucket_size"), nullptr);
  EXPECT_TRUE(says(advice.not_advised, "would not lower the calls"));
}

// Width 1024 makes matrices of 4 to 16 MiB, one bucket each: nothing gains from merging them.
TEST(BucketSize, StaysWhereCallsAreLarge) {
  Job job = small_job("commlens", 2, 1024);
  trainer::options(job).bucket = {4 * 1024 * 1024};
  const Advice advice = advised(job);
  EXPECT_EQ(find(advice, "bucket_size"), nullptr);
  EXPECT_TRUE(says(advice.not_advised, "where size, not number, decides"));
}

// DeepSpeed holds the bucket as a buffer: 50,000 elements of 4 bytes; the advice may not exceed the memory.
TEST(BucketSize, CountsDeepSpeedsBuffer) {
  Job job = zero3(0);
  deepspeed::options(job).reduce_bucket_size = 50'000;
  const Advice open = advised(job, {.memory = Bytes{std::int64_t{1} << 40}});
  const Recommendation* const made = find(open, "bucket_size");
  ASSERT_NE(made, nullptr);
  const Bytes bucket = made->after.memory - made->before.memory;
  EXPECT_EQ(bucket.value % (50'000 * 4), 0);
  EXPECT_GT(bucket, Bytes{0});
  EXPECT_EQ(find(advised(job, {.memory = made->before.memory}), "bucket_size"), nullptr);
}

TEST(BucketSize, NamesTheSettingOfDistributedDataParallel) {
  Job job = small_job("torch-ddp", 4, 128);
  pytorch::options(job).ddp.bucket_cap = {1024 * 1024};
  const Advice advice = advised(job);
  const Recommendation* const made = find(advice, "bucket_size");
  ASSERT_NE(made, nullptr);
  EXPECT_EQ(made->setting.substr(0, 14), "bucket_cap_mb=");
  EXPECT_GT(made->calls_saved(), 0);
}

}  // namespace
}  // namespace commlens
