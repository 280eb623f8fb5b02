#include "commlens/app/prediction.hpp"

#include <gtest/gtest.h>

#include "commlens/cli/test_support.hpp"

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

TEST(PredictionText, CountsRanksInThePluralFromTwo) {
  const auto total = [](const std::string& ranks) {
    const std::string text = test_support::run_with({"predict", "19M", "--ranks", ranks}).out;
    const std::size_t end = text.find(" wire bytes in this iteration");
    const std::size_t start = text.rfind('\n', end) + 1;
    return text.substr(start, text.find(':', start) - start);
  };
  EXPECT_EQ(total("1"), "the one rank");
  EXPECT_EQ(total("2"), "all 2 ranks together");
}

}  // namespace
}  // namespace commlens
