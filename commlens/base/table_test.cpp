#include "commlens/base/table.hpp"

#include <gtest/gtest.h>

namespace commlens {
namespace {

Table sample_table() {
  Table table({{.title = "op"},
               {.title = "calls", .align = Column::Align::right},
               {.title = "total", .align = Column::Align::right, .drop_first = 1},
               {.title = "why", .least = 5}});
  table.add({"all_reduce", "7", "14 B", "the gradient of a layer"});
  table.add({"send", "1,000", "2 B", "x"});
  return table;
}

TEST(Table, AlignsColumnsAndEndsLinesWithoutSpaces) {
  EXPECT_EQ(sample_table().text({}),
            "op          calls  total  why\n"
            "all_reduce      7   14 B  the gradient of a layer\n"
            "send        1,000    2 B  x\n");
}

TEST(Table, CutsThenDropsColumnsToFit) {
  EXPECT_EQ(sample_table().text({.width = 34}),
            "op          calls  total  why\n"
            "all_reduce      7   14 B  the gra…\n"
            "send        1,000    2 B  x\n");
  EXPECT_EQ(sample_table().text({.width = 26}),
            "op          calls  why\n"
            "all_reduce      7  the gr…\n"
            "send        1,000  x\n");
}

TEST(Table, NamesTheColumnsItHides) {
  EXPECT_EQ(Table::hidden_text(sample_table().hidden({.width = 26}), {}),
            "hidden for want of width: total (see --format csv or a wider terminal)\n");
  EXPECT_EQ(sample_table().text_with_hidden({}), sample_table().text({}));
}

TEST(Table, LeavesEmptyColumnsOut) {
  Table table({{.title = "a"}, {.title = "b"}});
  table.add({"1", ""});
  EXPECT_EQ(table.text({}, 2), "  a\n  1\n");
}

TEST(Table, ShowsControlCharactersAsQuestionMarks) {
  Table table({{.title = "name"}});
  table.add({"a\033[31m\n"});
  EXPECT_EQ(table.text({}), "name\na?[31m?\n");
}

TEST(CutTo, CountsCodePointsNotBytes) {
  EXPECT_EQ(cut_to("äöü", 3), "äöü");
  EXPECT_EQ(cut_to("äöüß", 3), "äö…");
  EXPECT_EQ(cut_to("abc", 0), "");
}

TEST(InColour, IsPlainUnlessAsked) {
  EXPECT_EQ(in_colour("x", Colour::red, {}), "x");
  EXPECT_EQ(in_colour("x", Colour::red, {.colour = true}), "\033[31mx\033[0m");
}

}  // namespace
}  // namespace commlens
