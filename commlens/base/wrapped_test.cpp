#include "commlens/base/wrapped.hpp"

#include <gtest/gtest.h>

namespace commlens {
namespace {

TEST(Wrapped, BreaksBetweenWordsAndIndentsWhatFollows) {
  EXPECT_EQ(wrapped("  one two three four\nfive\n", {.width = 11}), "  one two\n    three\n    four\nfive\n");
}

TEST(Wrapped, LeavesTextWithoutWidthWhole) { EXPECT_EQ(wrapped("one two three", {}), "one two three"); }

TEST(Wrapped, LeavesALongWordWhole) { EXPECT_EQ(wrapped("abcdefgh ij", {.width = 4}), "abcdefgh\n  ij"); }

}  // namespace
}  // namespace commlens
