#include "commlens/advice/advice.hpp"

#include <gtest/gtest.h>

namespace commlens {
namespace {

TEST(SmallMessages, TakeTheirShareOfTheTimeWhereItIsKnown) {
  SmallMessages small{.limit = {65536}, .calls = 90, .all_calls = 100};
  EXPECT_EQ(small.share(), 0.9);
  small.time = std::chrono::nanoseconds(25);
  small.all_time = std::chrono::nanoseconds(100);
  EXPECT_EQ(small.share(), 0.25);
}

TEST(SmallMessages, AreNoShareOfNothing) {
  EXPECT_EQ(SmallMessages{}.share(), 0.0);
  const SmallMessages timed{.time = std::chrono::nanoseconds(0), .all_time = std::chrono::nanoseconds(0)};
  EXPECT_EQ(timed.share(), 0.0);
}

}  // namespace
}  // namespace commlens
