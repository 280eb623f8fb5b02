#include "commlens/trace/growing_file.hpp"

#include <array>

#include <gtest/gtest.h>

#include "commlens/trace/test_support.hpp"

namespace commlens {
namespace {

TEST(GrowingFile, IsKnownToBeFilledUntilItIsClosed) {
  const test_support::ScratchFolder folder;
  constexpr std::array<std::byte, 16> head = {};
  GrowingFile file(folder / "f", head);
  EXPECT_TRUE(is_being_filled(folder / "f"));
  file.close();
  EXPECT_FALSE(is_being_filled(folder / "f"));
  EXPECT_FALSE(is_being_filled(folder / "none"));
}

}  // namespace
}  // namespace commlens
