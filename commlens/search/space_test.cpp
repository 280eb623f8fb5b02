#include "commlens/search/space.hpp"

#include <gtest/gtest.h>

#include "commlens/search/test_runs.hpp"

namespace commlens {
namespace {

using test_support::mixture_run;
using test_support::small_gpt_run;
using test_support::whole_space;

TEST(Space, HasAllDivisors) {
  EXPECT_EQ(divisors_of(36), (std::vector<std::int64_t>{1, 2, 3, 4, 6, 9, 12, 18, 36}));
  EXPECT_EQ(divisors_of(1), (std::vector<std::int64_t>{1}));
}

TEST(Space, DegreesMultiplyToTheDevices) {
  // tp 1, 2, 4 (16 heads), cp 1, 2 (2,048 tokens, 1,024 at least), pp 1, 2, 4 (24 layers), dp divides 6
  // sequences: 1, 2.
  const std::vector<Degrees> expected = {{1, 1, 2, 2}, {1, 1, 4, 1}, {1, 2, 1, 2}, {1, 2, 2, 1},
                                         {2, 1, 1, 2}, {2, 1, 2, 1}, {2, 2, 1, 1}, {4, 1, 1, 1}};
  EXPECT_EQ(degrees_of(small_gpt_run(4, 6), whole_space()), expected);
}

TEST(Space, StagesMayBeUnequalIfPaddingAddsNoMoreThanATenth) {
  EXPECT_EQ(padded_layers(61, 16), 64);
  EXPECT_EQ(padded_layers(126, 16), 128);
  EXPECT_EQ(padded_layers(24, 8), 24);
  TrainingRun run = small_gpt_run(16, 1);
  run.model.layers = 61;  // over 4, 8, 16: 64; over 2: 62
  run.model.heads = run.model.kv_heads = 1;
  run.model.sequence = 1024;
  EXPECT_EQ(degrees_of(run, whole_space()), (std::vector<Degrees>{{1, 1, 16, 1}}));
  run.model.layers = 17;  // over 16: 32
  EXPECT_TRUE(degrees_of(run, whole_space()).empty());
}

TEST(Space, ExpertsDivideDataContextAndTensorRanks) {
  // Eight experts on 2 x 1 x 2 ranks, whole or over both tensor ranks.
  const std::vector<ExpertDegrees> expected = {{1, 1}, {1, 2}, {2, 1}, {2, 2}, {4, 1}};
  EXPECT_EQ(expert_degrees_of(mixture_run(4, 4), {2, 1, 1, 2}), expected);
  EXPECT_EQ(expert_degrees_of(small_gpt_run(4, 4), {2, 1, 1, 2}), (std::vector<ExpertDegrees>{{1, 2}}));
}

TEST(Space, ShardsOnlyWithoutAPipeline) {
  const TrainingRun run = small_gpt_run(32, 32);
  SearchSpace space;
  space.kinds = {DataParallelKind::optimizer, DataParallelKind::sharded};
  const std::vector<DataKind> whole = {{DataParallelKind::optimizer, 0}};
  EXPECT_EQ(data_kinds_of(run, space, {1, 1, 2, 16}), whole);
  const std::vector<DataKind> both = {
      {DataParallelKind::optimizer, 0}, {DataParallelKind::sharded, 0}, {DataParallelKind::sharded, 4}};
  EXPECT_EQ(data_kinds_of(run, space, {2, 1, 1, 16}), both);
}

TEST(Space, OneRankHasOneKind) {
  EXPECT_EQ(data_kinds_of(small_gpt_run(1, 4), whole_space(), {1, 1, 1, 1}),
            (std::vector<DataKind>{{DataParallelKind::replicated, 0}}));
}

TEST(Space, ChunksNeedMicroBatchesThatStagesDivide) {
  const TrainingRun run = small_gpt_run(4, 8);
  EXPECT_EQ(virtual_stages_of(run, {1, 1, 4, 1}, 8), (std::vector<std::int64_t>{1, 2, 3, 6}));
  EXPECT_EQ(virtual_stages_of(run, {1, 1, 4, 1}, 6), (std::vector<std::int64_t>{1}));
  EXPECT_EQ(virtual_stages_of(run, {1, 1, 1, 4}, 8), (std::vector<std::int64_t>{1}));
}

TEST(Space, SaysWhyALayoutIsNotInIt) {
  TrainingRun run = small_gpt_run(8, 8);
  run.layout.data_kind = DataParallelKind::replicated;
  EXPECT_EQ(why_not(run, whole_space()), "");
  run.layout.tensor = 3;
  EXPECT_EQ(why_not(run, whole_space()), "8 devices are no multiple of 3");
  run.layout.tensor = 1;
  run.layout.micro_batch = 2;
  EXPECT_EQ(why_not(run, whole_space()), "the micro-batch does not divide the sequences of a data rank");
}

}  // namespace
}  // namespace commlens
