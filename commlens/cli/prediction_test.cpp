#include "commlens/cli/prediction.hpp"

#include <gtest/gtest.h>

namespace commlens {
namespace {

TEST(NumberText, IsNeverInScientificNotation) {
  EXPECT_EQ(number_text(0), "0");
  EXPECT_EQ(number_text(999), "999");
  EXPECT_EQ(number_text(1000), "1,000");
  EXPECT_EQ(number_text(-123456), "-123,456");
  EXPECT_EQ(number_text(35'212'800.25), "35,212,800.2");
  EXPECT_EQ(number_text(0.5), "0.5");
  EXPECT_EQ(number_text(1e19), "10,000,000,000,000,000,000");
}

}  // namespace
}  // namespace commlens
