#include "commlens/base/text.hpp"

#include <array>

#include <gtest/gtest.h>

namespace commlens {
namespace {

constexpr std::array<std::string_view, 3> k_keys = {"reduce_bucket_size", "overlap_comm", "stage"};

TEST(Nearest, FindsAMisspeltKey) {
  EXPECT_EQ(nearest("reduce_buket_size", k_keys), "reduce_bucket_size");
  EXPECT_EQ(nearest("stagee", k_keys), "stage");
}

TEST(Nearest, GivesNothingForAnUnrelatedWord) {
  EXPECT_EQ(nearest("temperature", k_keys), "");
  EXPECT_EQ(nearest(std::string(100000, 'x'), k_keys), "");
}

TEST(ParseInteger, TakesIntegersOnly) {
  EXPECT_EQ(parse_integer("-42").value(), -42);
  EXPECT_EQ(parse_integer("9223372036854775807").value(), INT64_MAX);
  for (const char* wrong : {"", "1.5", "12x", "9223372036854775808", " 1"}) {
    EXPECT_FALSE(parse_integer(wrong).has_value()) << wrong;
  }
}

TEST(ParseNumber, TakesFiniteNumbersOnly) {
  EXPECT_EQ(parse_number("-0.5").value(), -0.5);
  EXPECT_EQ(parse_number("1e3").value(), 1000.0);
  for (const char* wrong : {"", "1.5x", "inf", "nan", "1e999", " 1"}) {
    EXPECT_FALSE(parse_number(wrong).has_value()) << wrong;
  }
}

}  // namespace
}  // namespace commlens
