#include "commlens/frameworks/memory.hpp"

#include <gtest/gtest.h>

#include "commlens/frameworks/deepspeed/options.hpp"
#include "commlens/frameworks/frameworks.hpp"
#include "commlens/frameworks/presets.hpp"

namespace commlens {
namespace {

/// Two blocks of width 64, 128 tokens, 16 positions; of a block 12 x 64^2 + 13 x 64 = 49,984 elements, the
/// tables 8,192, 1,024 and 8,192, the last norm 128: 117,504 in all.
Job small(int stage) {
  Job job;
  job.framework = "deepspeed";
  job.model = {.name = "small",
               .layers = 2,
               .hidden = 64,
               .heads = 4,
               .sequence = 16,
               .max_positions = 16,
               .vocab = 128,
               .raw_vocab = 128,
               .positions = Positions::learned};
  job.layout.dp = 4;
  job.train.dtype = DType::bf16;
  job.train.zero_stage = stage;
  return job;
}

MemoryEstimate held(const Job& job) { return memory_per_rank(validated(job).value()); }

constexpr std::int64_t k_all = 117'504;

TEST(DeepSpeedMemory, SharesStatesByStage) {
  EXPECT_EQ(held(small(1)).optimizer, Bytes{k_all * 12 / 4});
  EXPECT_EQ(held(small(2)).gradients, Bytes{k_all * 2 / 4});
  EXPECT_EQ(held(small(3)).parameters, Bytes{k_all * 2 / 4});
  EXPECT_EQ(held(small(0)).optimizer, Bytes{k_all * 12}) << "bf16 without ZeRO is not sharded any more";
  Job older = small(0);
  older.framework_version = "0.16.9";
  EXPECT_EQ(held(older).optimizer, Bytes{k_all * 12 / 4});
}

TEST(DeepSpeedMemory, OfOffloadedStatesIsTheHosts) {
  Job job = small(3);
  deepspeed::options(job).offloads_optimizer = true;
  EXPECT_EQ(held(job).optimizer, Bytes{});
  EXPECT_EQ(held(job).gradients, Bytes{});
  EXPECT_EQ(held(job).parameters, Bytes{k_all * 2 / 4});
  deepspeed::options(job).offloads_parameters = true;
  EXPECT_EQ(held(job).parameters, Bytes{});
}

/// Low ranks of 4 beside qkv, 64 to 4 and 4 to 192: 1,024 elements in each of two blocks, all that is
/// trained.
TEST(DeepSpeedMemory, OfFrozenParametersHasNoMoments) {
  Job job = small(2);
  deepspeed::options(job).low_rank = {{"qkv"}, 4};
  EXPECT_EQ(held(job).parameters, Bytes{(k_all + 2 * 1024) * 2});
  EXPECT_EQ(held(job).gradients, Bytes{2 * 1024 * 2 / 4});
  EXPECT_EQ(held(job).optimizer, Bytes{2 * 1024 * 12 / 4});
}

/// One block has 4 experts instead of its MLP (2 x 4 x 64^2 + 5 x 64 = 33,088 elements each) and a router of
/// 4 x 64; two ranks hold two of them each, and two ranks the same two.
TEST(DeepSpeedMemory, OfExpertsIsThatOfTheirRanks) {
  Job job = small(1);
  job.model.experts = 4;
  job.model.top_k = 1;
  job.layout.ep = 2;
  deepspeed::options(job).mixture.layers = {1};
  const std::int64_t dense = k_all - 33'088 + 4 * 64;
  EXPECT_EQ(held(job).parameters, Bytes{(dense + 2 * 33'088) * 2});
  EXPECT_EQ(held(job).optimizer, Bytes{dense * 12 / 4 + 2 * 33'088 * 12 / 2});
}

/// Blocks that are leaves are gathered whole; without reuse and prefetch that is all that is gathered.
TEST(DeepSpeedMemory, OfLeafModulesIsGatheredAtOnce) {
  Job job = small(3);
  deepspeed::options(job).max_reuse_distance = deepspeed::options(job).prefetch_bucket_size = 0;
  deepspeed::options(job).reduce_bucket_size = 1;
  job.train.persistence_threshold = 0;
  deepspeed::options(job).leaf_modules.classes = {"GPT"};
  EXPECT_EQ(held(job).buffers, Bytes{(k_all + 1) * 2});
}

}  // namespace
}  // namespace commlens
