#include "commlens/plan/schemes/buckets.hpp"

#include <gtest/gtest.h>

namespace commlens {
namespace {

using Sums = std::vector<std::int64_t>;
using Buckets = std::vector<std::vector<std::size_t>>;

TEST(BucketsClosedAfterExceeding, KeepAnExactFitOpen) {
  const Sums sizes = {4, 6, 1, 20, 3};
  EXPECT_EQ(buckets_closed_after_exceeding(sizes, 10), (Sums{11, 20, 3}));
  EXPECT_EQ(buckets_closed_after_exceeding({}, 10), Sums{});
}

TEST(BucketsClosedBeforeExceeding, KeepAnExactFitAndIsolateLargeItems) {
  const Sums sizes = {4, 6, 1, 20, 3};
  EXPECT_EQ(buckets_closed_before_exceeding(sizes, 10), (Buckets{{0, 1}, {2}, {3}, {4}}));
}

TEST(BucketsClosedOnReaching, UseTheFirstLimitOnce) {
  const Sums sizes = {3, 2, 4, 4, 4, 1};
  EXPECT_EQ(buckets_closed_on_reaching(sizes, 5, 8), (Sums{5, 8, 5}));
}

TEST(CutAtPartitions, FollowsTheBorders) {
  const std::vector<PartitionSlice> slices = cut_at_partitions(7, 10, 5);
  ASSERT_EQ(slices.size(), 3U);
  EXPECT_EQ(slices[0].partition, 1);
  EXPECT_EQ(slices[0].count, 3);
  EXPECT_EQ(slices[1].partition, 2);
  EXPECT_EQ(slices[1].count, 5);
  EXPECT_EQ(slices[2].partition, 3);
  EXPECT_EQ(slices[2].count, 2);
}

}  // namespace
}  // namespace commlens
