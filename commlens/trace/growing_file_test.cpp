#include "commlens/trace/growing_file.hpp"

#include <array>

#include <gtest/gtest.h>

#include "commlens/trace/test_support.hpp"

namespace commlens {
namespace {

TEST(GrowingFile, IsKnownToBeFilledUntilItIsClosed) {
  const test_support::ScratchDirectory directory;
  constexpr std::array<std::byte, 16> head = {};
  GrowingFile file(directory / "f", head);
  EXPECT_TRUE(is_being_filled(directory / "f"));
  file.close();
  EXPECT_FALSE(is_being_filled(directory / "f"));
  EXPECT_FALSE(is_being_filled(directory / "none"));
}

}  // namespace
}  // namespace commlens
