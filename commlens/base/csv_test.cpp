#include "commlens/base/csv.hpp"

#include <vector>

#include <gtest/gtest.h>

namespace commlens {
namespace {

TEST(Csv, QuotesOnlyWhatNeedsIt) {
  EXPECT_EQ(csv_line(std::vector<std::string>{"a", "", "1,2", "say \"x\"", "two\nlines"}),
            "a,,\"1,2\",\"say \"\"x\"\"\",\"two\nlines\"\n");
}

}  // namespace
}  // namespace commlens
