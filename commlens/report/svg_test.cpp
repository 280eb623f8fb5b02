#include "commlens/report/svg.hpp"

#include <cmath>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "commlens/base/modules.hpp"
#include "commlens/base/test_support.hpp"

namespace commlens {
namespace {

using test_support::ScopedVariable;
using test_support::ScratchDirectory;

constexpr const char* k_blue = "#196fd3";    // the first series, and forward
constexpr const char* k_yellow = "#e3b719";  // the second, and backward

FigureColumn with_texts(FigureColumn column, const std::vector<std::string>& values) {
  for (const std::string& value : values) {
    texts(column).add(value);
  }
  return column;
}

FigureColumn with_wholes(FigureColumn column, std::vector<std::int64_t> values) {
  wholes(column) = std::move(values);
  return column;
}

FigureColumn with_numbers(FigureColumn column, std::vector<double> values) {
  numbers(column) = std::move(values);
  return column;
}

Figure drawn_figure(FigureKind kind, FigureOptions options, std::vector<FigureColumn> columns) {
  Figure figure;
  figure.id = "drawn";
  figure.title = "What is <drawn> & how";
  figure.kind = kind;
  figure.options = std::move(options);
  figure.columns = std::move(columns);
  return figure;
}

/// Two ops in two phases.
Figure small_bars() {
  return drawn_figure(
      FigureKind::bars, bar_options("call", "phase", true, {"calls", "time_ns"}),
      {with_texts(text_column("call", "op"), {"send x2", "send x2", "recv x2", "recv x2"}),
       with_texts(text_column("phase", "phase"), {"forward", "backward", "forward", "backward"}),
       with_wholes(whole_column("calls", "calls"), {3, 4, 5, 6}),
       with_numbers(number_column("time_ns", "time in calls", "ns"), {1.5e6, 2e6, 3e6, 1e6})});
}

Figure small_histogram() {
  return drawn_figure(FigureKind::histogram,
                      {{"lower", std::string("lower")}, {"toggles", std::vector<std::string>{"calls"}}},
                      {with_wholes(whole_column("lower", "from", "bytes"), {1024, 2048, 4096}),
                       with_wholes(whole_column("calls", "calls"), {7, 2, 5})});
}

Figure small_matrix() {
  return drawn_figure(FigureKind::matrix,
                      {{"source", std::string("from")},
                       {"destination", std::string("to")},
                       {"ranks", std::int64_t{3}},
                       {"toggles", std::vector<std::string>{"bytes"}}},
                      {with_wholes(whole_column("from", "from rank"), {0, 1, 2}),
                       with_wholes(whole_column("to", "to rank"), {1, 2, 0}),
                       with_wholes(whole_column("bytes", "wire bytes", "bytes"), {1024, 1024, 1024})});
}

Figure small_timeline() {
  return drawn_figure(
      FigureKind::timeline, {},
      {with_wholes(whole_column("rank", "rank"), {0, 0, 1, 1}),
       with_wholes(whole_column("start_ns", "start", "ns"), {0, 60, 10, 60}),
       with_wholes(whole_column("duration_ns", "duration", "ns"), {30, 40, 20, 40}),
       with_texts(text_column("op", "op"), {"all_reduce", "all_gather", "all_reduce", "all_gather"}),
       with_texts(text_column("axis", "axis"), {"dp", "dp", "dp", "dp"})});
}

/// Lines, or points.
Figure small_points(FigureKind kind) {
  return drawn_figure(kind,
                      {{"x", std::string("x")}, {"y", std::string("y")}, {"series", std::string("which")}},
                      {with_numbers(number_column("x", "bytes of a message", "bytes"), {1, 2, 3, 1, 2}),
                       with_numbers(number_column("y", "time", "ns"), {5, 6, 7, 9, 11}),
                       with_texts(text_column("which", "which"), {"ring", "ring", "ring", "tree", "tree"})});
}

class Svg : public testing::Test {
 protected:
  void SetUp() override {
    if (!module_file("libcommlens-charts.so")) {
      GTEST_SKIP() << "built without Duktape or npm";
    }
    Result<SvgDrawer> opened = SvgDrawer::open();
    ASSERT_TRUE(opened.has_value()) << opened.error().message;
    drawer_ = std::make_unique<SvgDrawer>(std::move(*opened));
  }

  std::string drawn(const Figure& figure, const SvgOptions& options = {}) {
    const Result<std::string> svg = drawer_->draw(figure, options);
    EXPECT_TRUE(svg.has_value()) << svg.error().message;
    return svg.value_or("");
  }

  std::string refusal(const Figure& figure, const SvgOptions& options = {}) {
    const Result<std::string> svg = drawer_->draw(figure, options);
    EXPECT_FALSE(svg.has_value());
    return svg ? "" : svg.error().message;
  }

 private:
  std::unique_ptr<SvgDrawer> drawer_;
};

std::size_t count_of(std::string_view text, std::string_view part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string_view::npos; at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

std::size_t filled_with(std::string_view svg, const std::string& colour) {
  return count_of(svg, "fill=\"" + colour + "\"");
}

/// Texts with their entities, one a line.
std::string texts_of(std::string_view svg) {
  std::string all;
  for (std::size_t at = svg.find("<text "); at != std::string_view::npos; at = svg.find("<text ", at + 1)) {
    const std::size_t from = svg.find('>', at) + 1;
    all += svg.substr(from, svg.find("</text>", from) - from);
    all += '\n';
  }
  return all;
}

/// "" for what an XML parser takes: names of tags that match, quoted attributes, no stray markup.
std::string xml_fault(std::string_view xml) {
  std::vector<std::string> open;
  while (!xml.empty()) {
    const std::size_t begin = xml.find('<');
    const std::string_view between = xml.substr(0, begin);
    for (std::size_t at = between.find('&'); at != std::string_view::npos; at = between.find('&', at + 1)) {
      if (between.find(';', at) > at + 7) {
        return "a bare & in " + std::string(between);
      }
    }
    if (begin == std::string_view::npos) {
      break;
    }
    const std::size_t end = xml.find('>', begin);
    if (end == std::string_view::npos) {
      return "a tag without an end";
    }
    const std::string_view tag = xml.substr(begin + 1, end - begin - 1);
    if (tag.find('<') != std::string_view::npos || count_of(tag, "\"") % 2 != 0) {
      return "tag " + std::string(tag);
    }
    const std::string name(tag.substr(0, tag.find_first_of(" /", 1)));
    if (name.starts_with('/')) {
      if (open.empty() || "/" + open.back() != name) {
        return "closed without a beginning: " + name;
      }
      open.pop_back();
    } else if (!tag.ends_with('/')) {
      open.push_back(name);
    }
    xml.remove_prefix(end + 1);
  }
  return open.empty() ? "" : "not closed: " + open.back();
}

TEST_F(Svg, OfBarsHasABarForEachRow) {
  const std::string svg = drawn(small_bars());
  EXPECT_EQ(xml_fault(svg), "");
  EXPECT_EQ(texts_of(svg),
            "What is &lt;drawn&gt; &amp; how\ncalls\nforward\nbackward\ncalls\nsend x2\nrecv "
            "x2\n0\n5\n10\n7\n11\n");
  EXPECT_EQ(filled_with(svg, k_blue), 3U);  // two bars, one mark of the legend
  EXPECT_EQ(filled_with(svg, k_yellow), 3U);
}

TEST_F(Svg, OfAHistogramHasABarForEachSize) {
  const std::string svg = drawn(small_histogram());
  EXPECT_EQ(xml_fault(svg), "");
  EXPECT_EQ(filled_with(svg, k_blue), 3U);
  for (const char* const text :
       {"calls; dashed: of this size or less\n", "1 KiB\n2 KiB\n4 KiB\n", "100 %\n"}) {
    EXPECT_NE(texts_of(svg).find(text), std::string::npos) << text;
  }
}

TEST_F(Svg, OfAMatrixHasACellForEachPair) {
  const std::string svg = drawn(small_matrix());
  EXPECT_EQ(xml_fault(svg), "");
  // Equal bytes: one path of three cells, of the middle of the ramp.
  const std::size_t cells = svg.rfind("<path d=\"", svg.find("fill=\"rgb("));
  ASSERT_NE(cells, std::string::npos);
  EXPECT_EQ(count_of(svg.substr(cells, svg.find("fill=", cells) - cells), "Z"), 3U);
  EXPECT_NE(texts_of(svg).find("from rank\n"), std::string::npos);
}

TEST_F(Svg, OfATimelineHasARectangleForEachCall) {
  const std::string svg = drawn(small_timeline());
  EXPECT_EQ(xml_fault(svg), "");
  for (const char* const colour : {k_blue, k_yellow}) {  // of all_reduce and of all_gather
    const std::string fill = std::string("fill=\"") + colour + '"';
    const std::size_t end = svg.rfind(fill);
    const std::size_t begin = svg.rfind("<path d=\"", end);
    EXPECT_EQ(count_of(svg.substr(begin, end - begin), "Z"), 2U) << colour;
  }
  EXPECT_NE(texts_of(svg).find("all_reduce\nall_gather\n"), std::string::npos);
  EXPECT_NE(texts_of(svg).find("rank 0\nrank 1\n"), std::string::npos);
}

TEST_F(Svg, OfLinesHasALineForEachSeriesAndAMarkForEachRow) {
  const std::string svg = drawn(small_points(FigureKind::lines));
  EXPECT_EQ(xml_fault(svg), "");
  EXPECT_EQ(count_of(svg, "stroke=\"#196fd3\" stroke-width=\"1.75\""), 1U);
  EXPECT_EQ(count_of(svg, "stroke=\"#e3b719\" stroke-width=\"1.75\""), 1U);
  EXPECT_EQ(filled_with(svg, k_blue), 4U);  // three marks, one of the legend
  EXPECT_EQ(filled_with(svg, k_yellow), 3U);
  EXPECT_NE(texts_of(svg).find("ring\ntree\n"), std::string::npos);
}

TEST_F(Svg, OfPointsHasAPointForEachRow) {
  const std::string svg = drawn(small_points(FigureKind::scatter));
  EXPECT_EQ(xml_fault(svg), "");
  EXPECT_EQ(filled_with(svg, k_blue), 4U);
  EXPECT_EQ(filled_with(svg, k_yellow), 3U);
  EXPECT_NE(texts_of(svg).find("bytes of a message\n"), std::string::npos);
}

TEST_F(Svg, HasTheChosenWidthThemeAndMeasure) {
  const std::string svg =
      drawn(small_bars(), {.width = 900, .theme = SvgTheme::dark, .chosen = {{"measure", "time_ns"}}});
  EXPECT_TRUE(svg.starts_with("<svg width=\"900\" ")) << svg.substr(0, 80);
  EXPECT_EQ(filled_with(svg, "#12171e"), 1U);  // the paper
  EXPECT_NE(texts_of(svg).find("\ntime in calls\n"), std::string::npos);
  EXPECT_NE(texts_of(svg).find("\n3.5 ms\n4 ms\n"), std::string::npos);
}

TEST_F(Svg, DoesNotDependOnWhatWasDrawnBefore) {
  const std::string first = drawn(small_histogram());
  drawn(small_timeline());
  EXPECT_EQ(drawn(small_histogram()), first);
}

TEST_F(Svg, ShowsNoValueAsNoBar) {
  Figure figure = small_bars();
  numbers(figure.columns[3])[0] = std::numeric_limits<double>::quiet_NaN();
  wholes(figure.columns[2])[0] = k_no_value;
  EXPECT_EQ(filled_with(drawn(figure), k_blue), 2U);
  EXPECT_EQ(filled_with(drawn(figure, {.chosen = {{"measure", "time_ns"}}}), k_blue), 2U);
}

TEST_F(Svg, TakesHostileNamesAsTexts) {
  const std::vector<std::string> names = {"__proto__", "</text><script>alert(1)</script>",
                                          "\"};throw 1;//\xf0\x9f\x98\x80", "constructor"};
  Figure figure = small_bars();
  figure.columns[0] = with_texts(text_column("call", "op"), names);
  figure.columns[1] = with_texts(text_column("phase", "phase"), names);
  figure.title = "]]>\x01\xff";
  const std::string svg = drawn(figure);
  EXPECT_EQ(xml_fault(svg), "");
  EXPECT_EQ(count_of(svg, "<script"), 0U);
  EXPECT_EQ(count_of(svg, "\x01"), 0U);
  EXPECT_EQ(count_of(texts_of(svg), "__proto__\n"), 2U);  // of the legend and of the axis
  EXPECT_EQ(count_of(texts_of(svg), "\xf0\x9f\x98\x80\n"), 2U);
  EXPECT_EQ(drawn(small_bars()), drawn(small_bars()));
}

TEST_F(Svg, IsEmptyWhereTheTableIsAllThereIs) {
  Figure figure = small_bars();
  figure.kind = FigureKind::table;
  EXPECT_EQ(drawn(figure), "");
  EXPECT_EQ(drawn(drawn_figure(FigureKind::bars, {}, small_bars().columns)), "");  // of no category
  EXPECT_EQ(drawn(drawn_figure(FigureKind::lines, {}, {})), "");
}

TEST_F(Svg, SaysWhatCanBeChosen) {
  EXPECT_EQ(refusal(small_bars(), {.chosen = {{"measure", "bytes"}}}),
            "drawn: cannot be drawn: Error: has no \"bytes\" to choose for \"measure\"; "
            "there are: measure: calls, time_ns; apart: on, off");
  EXPECT_NE(drawn(small_bars()), "");
}

TEST_F(Svg, RefusesWidthsAndRowsBeyondItsLimits) {
  EXPECT_EQ(refusal(small_bars(), {.width = 239}), "an SVG 239 pixels wide: choose a width from 240 to 4000");
  Figure figure = small_matrix();
  for (FigureColumn& column : figure.columns) {
    wholes(column).resize(240'001);
  }
  EXPECT_EQ(refusal(figure), "drawn: 240,001 rows are too many, up to 240,000 are drawn");
}

TEST_F(Svg, OfHundredThousandCallsIsDrawn) {
  Figure figure = small_timeline();
  constexpr std::int64_t calls = 100'000;
  std::vector<std::int64_t> starts;
  std::vector<std::int64_t> ranks;
  FigureColumn op = text_column("op", "op");
  FigureColumn axis = text_column("axis", "axis");
  for (std::int64_t call = 0; call < calls; ++call) {
    ranks.push_back(call % 8);
    starts.push_back(call * 10);
    texts(op).add(call % 3 == 0 ? "all_reduce" : "all_gather");
    texts(axis).add("dp");
  }
  figure.columns = {
      with_wholes(whole_column("rank", "rank"), ranks),
      with_wholes(whole_column("start_ns", "start", "ns"), starts),
      with_wholes(whole_column("duration_ns", "duration", "ns"), std::vector<std::int64_t>(calls, 9)), op,
      axis};
  const std::string svg = drawn(figure);
  EXPECT_EQ(xml_fault(svg), "");
  // At most two rectangles for each of 600 pixels of 8 ranks, each of 25 letters.
  EXPECT_LT(svg.size(), 300'000U);
}

TEST(SvgModule, SaysWhichFileWouldBeLoaded) {
  const ScratchDirectory directory;
  directory.write("libcommlens-charts.so", "no library");
  const ScopedVariable path("COMMLENS_MODULE_PATH", directory.path().string());
  const Result<SvgDrawer> drawer = SvgDrawer::open();
  ASSERT_FALSE(drawer.has_value());
  EXPECT_TRUE(drawer.error().message.starts_with("cannot load " + directory.path("libcommlens-charts.so")))
      << drawer.error().message;
}

}  // namespace
}  // namespace commlens
