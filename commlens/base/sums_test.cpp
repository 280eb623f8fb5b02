#include "commlens/base/sums.hpp"

#include <gtest/gtest.h>

namespace commlens {
namespace {

TEST(Sums, StopAtTheLargestInteger) {
  EXPECT_EQ(saturating_sum(std::int64_t{2}, std::int64_t{3}), 5);
  EXPECT_EQ(saturating_sum(INT64_MAX, std::int64_t{1}), INT64_MAX);
  EXPECT_EQ(saturating_product(std::int64_t{6}, std::int64_t{7}), 42);
  EXPECT_EQ(saturating_product(INT64_MAX / 2, std::int64_t{3}), INT64_MAX);
}

TEST(Sums, StopAtTheNegativeOfTheLargestInteger) {
  EXPECT_EQ(saturating_sum(std::int64_t{-2}, std::int64_t{3}), 1);
  EXPECT_EQ(saturating_sum(-INT64_MAX, std::int64_t{-1}), -INT64_MAX);
  EXPECT_EQ(saturating_sum(-INT64_MAX, std::int64_t{-2}), -INT64_MAX);
}

TEST(Sums, PartsAreRoundedDownAndDoNotOverflow) {
  EXPECT_EQ(part_of(Bytes{10}, {1, 3}), Bytes{3});
  EXPECT_EQ(part_of(Bytes{INT64_MAX}, {INT64_MAX, INT64_MAX}), Bytes{INT64_MAX});
}

}  // namespace
}  // namespace commlens
