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
            "hidden, too narrow: total (see --format csv or a wider terminal)\n");
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

/// Two ops: one on the wire for 1.5 µs, one without times.
Table typed_table() {
  Table table({{.key = "op", .title = "op"},
               {.key = "calls_all_ranks", .title = "calls", .unit = ColumnUnit::count},
               {.key = "message_bytes", .title = "message", .unit = ColumnUnit::bytes},
               {.key = "p50_ns", .title = "P50", .unit = ColumnUnit::nanoseconds, .json = "time.p50_ns"},
               {.key = "share_of_time", .title = "share", .unit = ColumnUnit::share},
               {.key = "group", .in_text = false},
               {.title = "bar"}});
  table.add({"all_reduce", 1234, Bytes{2048}, std::chrono::nanoseconds(1500), 0.125,
             std::vector<std::int64_t>{0, 1}, "##"});
  table.add({"say, \"x\"", 1, Cell(Bytes{8}).shown("~8 B"), {}, {}, {}, ""});
  return table;
}

TEST(Table, ShowsNumbersInTheirUnitAndRightAligned) {
  EXPECT_EQ(typed_table().text({}),
            "op          calls   message      P50   share  bar\n"
            "all_reduce  1,234  2.00 KiB  1.50 µs  12.5 %  ##\n"
            "say, \"x\"        1      ~8 B\n");
}

TEST(Table, WritesPlainNumbersAsCsv) {
  EXPECT_EQ(typed_table().csv(),
            "op,calls_all_ranks,message_bytes,p50_ns,share_of_time,group\n"
            "all_reduce,1234,2048,1500,0.125,0 1\n"
            "\"say, \"\"x\"\"\",1,8,,,\n");
}

TEST(Table, IsPickedFromByKey) {
  const Table timed = typed_table().with_value("p50_ns");
  EXPECT_EQ(timed.picked({"p50_ns", Column{"op", "call"}, "of_another_table"}).text({}),
            "    P50  call\n"
            "1.50 µs  all_reduce\n");
  EXPECT_EQ(typed_table().remove({"p50_ns", "share_of_time", "group"}).csv_keys(),
            "op,calls_all_ranks,message_bytes\n");
}

TEST(Table, TakesAnotherColumn) {
  const std::vector<Column> cause = {{.key = "cause"}};
  EXPECT_EQ(typed_table().with(cause, {"rule", "unknown"}).picked({"cause"}).csv_rows(), "rule\nunknown\n");
  EXPECT_EQ(typed_table().with(cause).picked({"cause"}).csv_rows(), "\n\n");
}

TEST(Cell, KeepsWhatIsMissingApartFromNothing) {
  EXPECT_TRUE(Cell(std::optional<Bytes>()).is_missing());
  EXPECT_FALSE(Cell(Bytes{0}).is_missing());
  EXPECT_FALSE(Cell("").is_missing());
  EXPECT_EQ(Cell(true).plain(), "true");
  EXPECT_EQ(Cell(true).text(ColumnUnit::text), "yes");
  EXPECT_EQ(Cell(4096).text(ColumnUnit::id), "4096");
  EXPECT_EQ(Cell(std::vector<std::string>{"a b", "c"}).plain(), "a b; c");
  EXPECT_EQ(Cell(2.5e10).text(ColumnUnit::bytes_per_s), "25.0 GB/s");
  EXPECT_EQ(Cell(0.0015).text(ColumnUnit::seconds), "1.50 ms");
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

TEST(Printable, ReplacesWhatTurnsTheDirectionOrTheLine) {
  EXPECT_EQ(printable("a\u202Eb\u2066c\u2069d\u200Fe\u061Cf\u2028g"), "a?b?c?d?e?f?g");
  EXPECT_EQ(printable("größe 大きさ … ← €"), "größe 大きさ … ← €");
}

TEST(ShownForeign, IsCutToItsWidth) {
  EXPECT_EQ(shown_foreign(std::string(10'000, 'x'), 8), "xxxxxxx…");
  EXPECT_EQ(shown_foreign("\u202Ename"), "?name");
  EXPECT_EQ(display_width(shown_foreign(std::string(10'000, 'x'))), k_widest_text);
}

TEST(Table, ShowsForeignTextsShortened) {
  Table table({Column{.key = "name", .title = "name"}});
  table.add({std::string(10'000, 'x')});
  EXPECT_EQ(display_width(table.text({})), 4 + 1 + k_widest_text + 1);
  EXPECT_EQ(table.csv().size(), 5u + 10'000u + 1u);
}

}  // namespace
}  // namespace commlens
