#include "commlens/base/csv.hpp"

#include <vector>

#include <gtest/gtest.h>

namespace commlens {
namespace {

TEST(Csv, QuotesOnlyWhatNeedsIt) {
  EXPECT_EQ(csv_line(std::vector<std::string>{"a", "", "1,2", "say \"x\"", "two\nlines"}),
            "a,,\"1,2\",\"say \"\"x\"\"\",\"two\nlines\"\n");
}

TEST(Csv, ReadsWhatItWrites) {
  const std::vector<std::string> cells = {"a", "", "1,2", "say \"x\"", "two\nlines"};
  const Result<CsvTable> table = parse_csv("one,two,three,four,five\n" + csv_line(cells) + "\n\r\nx\n");
  ASSERT_TRUE(table);
  ASSERT_EQ(table->rows.size(), 2U);
  EXPECT_EQ(table->rows[0].cells, cells);
  EXPECT_EQ(table->rows[1].line, 6);
  EXPECT_EQ(table->cell(table->rows[0], "three"), "1,2");
  EXPECT_EQ(table->cell(table->rows[1], "three"), "");
  EXPECT_EQ(table->cell(table->rows[0], "six"), "");
}

TEST(Csv, NamesTheLineOfAnOpenQuoteAndAColumnThatIsThereTwice) {
  EXPECT_EQ(parse_csv("a,b\n1,2\n3,\"4\n5,6\n").error().message, "line 3: a quote is not closed");
  EXPECT_EQ(parse_csv("a,a\n1,2\n").error().message, "two columns are called 'a'");
}

}  // namespace
}  // namespace commlens
