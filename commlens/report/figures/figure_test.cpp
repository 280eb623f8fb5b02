#include "commlens/report/figures/figure.hpp"

#include <limits>

#include <gtest/gtest.h>

namespace commlens {
namespace {

TEST(TimeText, ShowsThreeDigitsThatCount) {
  EXPECT_EQ(time_text(0), "0 ns");
  EXPECT_EQ(time_text(999), "999 ns");
  EXPECT_EQ(time_text(1250), "1.25 µs");
  EXPECT_EQ(time_text(45'600), "45.6 µs");
  EXPECT_EQ(time_text(999'600), "1.00 ms");
  EXPECT_EQ(time_text(250'000'000), "250 ms");
  EXPECT_EQ(time_text(12'340'000'000.0), "12.3 s");
  EXPECT_EQ(time_text(-1250), "-1.25 µs");
}

TEST(FigureColumn, WritesCellsForPeopleAndPlainForPrograms) {
  FigureColumn bytes = whole_column("message_bytes", "message", "bytes");
  wholes(bytes) = {4213760, k_no_value};
  EXPECT_EQ(bytes.cell(0), "4,213,760");
  EXPECT_EQ(bytes.plain(0), "4213760");
  EXPECT_EQ(bytes.cell(1), "-");
  EXPECT_EQ(bytes.plain(1), "");
  FigureColumn share = number_column("share", "share", "share");
  numbers(share) = {0.125, std::numeric_limits<double>::quiet_NaN()};
  EXPECT_EQ(share.cell(0), "12.5 %");
  EXPECT_EQ(share.plain(0), "0.125");
  EXPECT_EQ(share.cell(1), "-");
  EXPECT_EQ(share.plain(1), "");
  FigureColumn bandwidth = number_column("bus", "bus", "bytes_per_second");
  numbers(bandwidth) = {12.5e9};
  EXPECT_EQ(bandwidth.cell(0), "12.50 GB/s");
}

TEST(TextColumn, KeepsEachTextOnce) {
  TextColumn column;
  for (const char* text : {"send", "recv", "send", ""}) {
    column.add(text);
  }
  EXPECT_EQ(column.dictionary(), (std::vector<std::string>{"send", "recv", ""}));
  EXPECT_EQ(column.codes(), (std::vector<std::uint32_t>{0, 1, 0, 2}));
  EXPECT_EQ(column.at(2), "send");
}

TEST(TextColumn, HoldsWhatPeopleCanBeShown) {
  TextColumn column;
  column.add("a\u202Eb");
  column.add(std::string(10'000, 'x'));
  EXPECT_EQ(column.at(0), "a?b");
  EXPECT_EQ(column.at(1), std::string(999, 'x') + "…");
}

}  // namespace
}  // namespace commlens
