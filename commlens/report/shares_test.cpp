#include "commlens/report/shares.hpp"

#include <gtest/gtest.h>

namespace commlens {
namespace {

TEST(Percent, OfNothingIsADash) {
  EXPECT_EQ(percent(1, 8), "12.5 %");
  EXPECT_EQ(percent(0, 0), "-");
}

TEST(Bar, IsInProportionAndNeverVanishes) {
  EXPECT_EQ(bar(5, 10, 8), "####");
  EXPECT_EQ(bar(1, 1000, 8), "#");
  EXPECT_EQ(bar(0, 10, 8), "");
}

}  // namespace
}  // namespace commlens
