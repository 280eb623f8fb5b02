#include "commlens/frameworks/megatron/gradient_buckets.hpp"

#include <vector>

#include <gtest/gtest.h>

namespace commlens::megatron {
namespace {

std::vector<ModuleParameter> parameters_of(const std::vector<std::int64_t>& counts) {
  std::vector<ModuleParameter> parameters;
  for (const std::int64_t count : counts) {
    parameters.push_back({.place = {Module::fc1, std::ssize(parameters)}, .count = count});
  }
  return parameters;
}

std::vector<std::int64_t> sizes_of(const std::vector<GradientBucket>& buckets) {
  std::vector<std::int64_t> sizes;
  for (const GradientBucket& bucket : buckets) {
    sizes.push_back(bucket.count);
  }
  return sizes;
}

TEST(MegatronBuckets, AreNotPaddedWithoutTheDistributedOptimizer) {
  EXPECT_EQ(sizes_of(gradient_buckets(parameters_of({100, 7, 30}), {.data_ranks = 4})),
            (std::vector<std::int64_t>{137}));
}

/// From the last parameter: 100, then 7 from 128 on, then 100 from 192 on: 292, padded to lcm(4, 128).
TEST(MegatronBuckets, StartParametersAtMultiplesOf64) {
  EXPECT_EQ(sizes_of(gradient_buckets(parameters_of({100, 7, 100}), {.data_ranks = 4, .is_sharded = true})),
            (std::vector<std::int64_t>{384}));
}

TEST(MegatronBuckets, CloseWhenTheyReachTheLimit) {
  const std::vector<ModuleParameter> parameters = parameters_of({50, 60, 70, 80});
  EXPECT_EQ(sizes_of(gradient_buckets(parameters, {.limit = 100})), (std::vector<std::int64_t>{150, 110}));
}

TEST(MegatronBuckets, OfATiedTableStandAlone) {
  std::vector<ModuleParameter> parameters = parameters_of({128, 256, 128});
  parameters.front().has_tied_copy = true;
  EXPECT_EQ(sizes_of(gradient_buckets(parameters, {.data_ranks = 2, .is_sharded = true})),
            (std::vector<std::int64_t>{384, 128}));
  EXPECT_EQ(sizes_of(gradient_buckets(parameters, {.data_ranks = 2})), (std::vector<std::int64_t>{512}));
}

TEST(MegatronBuckets, OfExpertsFollowAndArePaddedToTheirRanks) {
  std::vector<ModuleParameter> parameters = parameters_of({128, 100});
  parameters.back().is_expert = true;
  const std::vector<GradientBucket> buckets =
      gradient_buckets(parameters, {.data_ranks = 2, .expert_ranks = 3, .is_sharded = true});
  EXPECT_EQ(sizes_of(buckets), (std::vector<std::int64_t>{128, 384}));
  EXPECT_TRUE(buckets.back().is_expert);
}

}  // namespace
}  // namespace commlens::megatron
