#include "commlens/summary/histogram.hpp"

#include <gtest/gtest.h>

namespace commlens {
namespace {

/// `calls` messages of that size.
void add(HistogramBuilder& histogram, std::int64_t size, std::int64_t calls) {
  SizeBin bin;
  bin.calls = calls;
  bin.message = Bytes{size * calls};
  histogram.add(Bytes{size}, bin);
}

TEST(SizeHistogram, BinsArePowersOfTwo) {
  HistogramBuilder builder(Bytes{65536});
  add(builder, 1000, 6);
  add(builder, 512, 1);
  add(builder, 1024, 1);
  const SizeHistogram histogram = builder.take();
  ASSERT_EQ(histogram.bins.size(), 2u);
  EXPECT_EQ(histogram.bins[0].lower, Bytes{512});
  EXPECT_EQ(histogram.bins[0].calls, 7);
  EXPECT_EQ(histogram.bins[0].message, Bytes{6512});
  EXPECT_EQ(histogram.bins[1].lower, Bytes{1024});
  EXPECT_EQ(histogram.calls, 8);
  EXPECT_EQ(histogram.message, Bytes{7536});
}

TEST(SizeHistogram, SmallMeansBelowTheLimit) {
  HistogramBuilder builder(Bytes{65536});
  add(builder, 65536, 1);
  add(builder, 65535, 3);
  const SizeHistogram histogram = builder.take();
  EXPECT_EQ(histogram.small_calls, 3);
  EXPECT_EQ(histogram.small_share_by_calls(), 0.75);
  EXPECT_EQ(histogram.small_message, Bytes{196605});
}

TEST(SizeHistogram, KeepsEmptyMessages) {
  HistogramBuilder builder(Bytes{65536});
  add(builder, 0, 2);
  const SizeHistogram histogram = builder.take();
  ASSERT_EQ(histogram.bins.size(), 1u);
  EXPECT_EQ(histogram.bins[0].lower, Bytes{0});
  EXPECT_EQ(histogram.calls, 2);
  EXPECT_EQ(histogram.small_share_by_bytes(), 0.0);
}

}  // namespace
}  // namespace commlens
