#include "commlens/summary/histogram.hpp"

#include <gtest/gtest.h>

namespace commlens {
namespace {

BreakdownRow row_of(CommKind kind, std::int64_t message, std::int64_t calls, std::int64_t ranks) {
  BreakdownRow row;
  row.kind = kind;
  row.message = Bytes{message};
  row.calls = calls;
  row.total_message = Bytes{message * calls};
  row.ranks = {Rank{0}, Rank{ranks - 1}};
  return row;
}

TEST(SizeHistogram, BinsArePowersOfTwoOverAllRanks) {
  const SizeHistogram histogram =
      size_histogram({row_of(CommKind::all_reduce, 1000, 3, 2), row_of(CommKind::all_gather, 512, 1, 1),
                      row_of(CommKind::all_reduce, 1024, 1, 1)});
  ASSERT_EQ(histogram.bins.size(), 2u);
  EXPECT_EQ(histogram.bins[0].lower, Bytes{512});
  EXPECT_EQ(histogram.bins[0].calls, 7);
  EXPECT_EQ(histogram.bins[0].message, Bytes{6512});
  EXPECT_EQ(histogram.bins[1].lower, Bytes{1024});
  EXPECT_EQ(histogram.calls, 8);
  EXPECT_EQ(histogram.message, Bytes{7536});
}

TEST(SizeHistogram, SmallMeansBelowTheLimit) {
  const SizeHistogram histogram =
      size_histogram({row_of(CommKind::all_reduce, 65536, 1, 1), row_of(CommKind::all_gather, 65535, 3, 1)});
  EXPECT_EQ(histogram.small_calls, 3);
  EXPECT_EQ(histogram.small_share_by_calls(), 0.75);
  EXPECT_EQ(histogram.small_message, Bytes{196605});
}

TEST(SizeHistogram, LeavesBarriersOutAndKeepsEmptyMessages) {
  const SizeHistogram histogram =
      size_histogram({row_of(CommKind::barrier, 0, 5, 1), row_of(CommKind::broadcast, 0, 2, 1)});
  ASSERT_EQ(histogram.bins.size(), 1u);
  EXPECT_EQ(histogram.bins[0].lower, Bytes{0});
  EXPECT_EQ(histogram.calls, 2);
  EXPECT_EQ(histogram.small_share_by_bytes(), 0.0);
}

}  // namespace
}  // namespace commlens
