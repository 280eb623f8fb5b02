#include "commlens/report/html.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "commlens/report/web_assets.hpp"

namespace commlens {
namespace {

constexpr FigureEntry k_bars{"breakdown", "Breakdown", "Volume", nullptr};
constexpr FigureEntry k_table{"overview", "Overview", "First", nullptr};
constexpr FigureEntry k_absent{"timeline", "Timeline", "First", nullptr};

Figure bars(std::size_t rows, const std::string& text = "all_reduce") {
  Figure figure;
  figure.id = "breakdown";
  figure.title = "Breakdown";
  figure.caption = "Of " + text;
  figure.kind = FigureKind::bars;
  FigureColumn op = text_column("op", "op of " + text);
  FigureColumn calls = whole_column("calls", "calls");
  for (std::size_t row = 0; row < rows; ++row) {
    texts(op).add(text);
    wholes(calls).push_back(static_cast<std::int64_t>(row));
  }
  figure.columns = {std::move(op), std::move(calls)};
  figure.options = {{"category", std::string("op")}};
  figure.notes = {"note on " + text};
  figure.formulas = {"wire-bytes"};
  return figure;
}

Figure table() {
  Figure figure = bars(1);
  figure.id = "overview";
  figure.title = "Overview";
  figure.kind = FigureKind::table;
  return figure;
}

std::string page(const std::vector<MadeFigure>& figures,
                 const ReportHead& head = {"A title", "of a trace", "commlens"}) {
  return report_html(head, figures);
}

/// The page without the contents of its style and scripts, which are not markup.
std::string markup(std::string html) {
  for (const auto& [open, close] : {std::pair("<style>", "</style>"), std::pair("<script", "</script>")}) {
    for (std::size_t at = html.find(open); at != std::string::npos; at = html.find(open, at)) {
      html.erase(at, html.find(close, at) + std::string_view(close).size() - at);
    }
  }
  return html;
}

/// Every element that is opened is closed, in order; the name of the first one that is not, else empty.
std::string unbalanced(const std::string& html) {
  const std::vector<std::string> empty_ones = {"meta", "!DOCTYPE", "link", "br"};
  std::vector<std::string> open;
  for (std::size_t at = html.find('<'); at != std::string::npos; at = html.find('<', at + 1)) {
    const bool closes = html[at + 1] == '/';
    const std::size_t start = at + (closes ? 2 : 1);
    const std::string name = html.substr(start, html.find_first_of(" >\n", start) - start);
    if (std::find(empty_ones.begin(), empty_ones.end(), name) != empty_ones.end()) {
      continue;
    }
    if (!closes) {
      open.push_back(name);
    } else if (open.empty() || open.back() != name) {
      return "/" + name;
    } else {
      open.pop_back();
    }
  }
  return open.empty() ? "" : open.back();
}

TEST(HtmlText, EscapesWhatHasAMeaning) {
  EXPECT_EQ(html_text("<a href='x' id=\"y\">&amp;"), "&lt;a href=&#39;x&#39; id=&quot;y&quot;&gt;&amp;amp;");
}

TEST(HtmlText, ShowsControlCharactersAndNoForeignBytes) {
  EXPECT_EQ(html_text(std::string_view("a\0\x1b\x7f", 4)), "a\xe2\x90\x80\xe2\x90\x9b\xe2\x90\xa1");
  EXPECT_EQ(html_text("\xff\xc3\xa4"), "\xef\xbf\xbd\xc3\xa4");
  EXPECT_EQ(html_text("\xc2\x85"), "\xef\xbf\xbd");  // C1 control
  // As a literal, it would reverse the source text in an editor.
  const std::string right_to_left_override = {'\xe2', '\x80', '\xae'};
  EXPECT_EQ(html_text(right_to_left_override + "x"), "\xef\xbf\xbdx");
  EXPECT_EQ(html_text("\xe2\x80\x94"), "\xe2\x80\x94");  // a dash stays
}

TEST(ReportHtml, EveryElementIsClosed) {
  const std::string html =
      page({{&k_table, table()}, {&k_absent, no_figure("no times")}, {&k_bars, bars(3)}});
  EXPECT_EQ(unbalanced(markup(html)), "");
}

TEST(ReportHtml, HostileStringsStayText) {
  const std::string hostile =
      "</script><script>alert(1)</script><img src=x onerror=alert(1)>'\"&\x01\xff<!--";
  const std::vector<MadeFigure> figures = {{&k_bars, bars(2, hostile)}, {&k_absent, no_figure(hostile)}};
  const std::string html = page(figures, {hostile, hostile, hostile});
  EXPECT_EQ(html.find("<script>alert"), std::string::npos);
  EXPECT_EQ(html.find("<img"), std::string::npos);
  EXPECT_EQ(html.find("<!--"), std::string::npos);
  EXPECT_EQ(unbalanced(markup(html)), "");
}

TEST(ReportHtml, DataInThePageIsJsonWithoutTags) {
  const std::string html = page({{&k_table, table()}, {&k_bars, bars(2, "<script>")}});
  const std::string open = "<script type=\"application/json\" id=\"commlens-data\">";
  const std::size_t start = html.find(open) + open.size();
  const std::string data = html.substr(start, html.find("</script>", start) - start);
  EXPECT_EQ(data.find('<'), std::string::npos);
  const nlohmann::json json = nlohmann::json::parse(data);
  EXPECT_EQ(json["schema"], "commlens.report/1");
  EXPECT_EQ(json["figures"].size(), 1U);  // tables have nothing to draw
  const nlohmann::json& figure = json["figures"]["breakdown"];
  EXPECT_EQ(figure["kind"], "bars");
  EXPECT_EQ(figure["options"]["category"], "op");
  EXPECT_EQ(figure["columns"][0]["dictionary"][0], "<script>");
}

TEST(ReportHtml, LongTablesEndAfterAThousandRowsAndSaySo) {
  const std::string html = page({{&k_bars, bars(1001)}});
  EXPECT_NE(html.find("<td class=\"number\">999</td>"), std::string::npos);
  EXPECT_EQ(html.find("<td class=\"number\">1,000</td>"), std::string::npos);
  EXPECT_NE(html.find("The first 1,000 of 1,001 rows"), std::string::npos);
  EXPECT_EQ(page({{&k_bars, bars(1000)}}).find("The first 1,000 of"), std::string::npos);
}

TEST(ReportHtml, ASectionNamedAsAFigureHasAnAnchorOfItsOwn) {
  constexpr FigureEntry entry{"breakdown", "Breakdown", "Breakdown", nullptr};
  const std::string html = page({{&k_table, table()}, {&entry, bars(1)}});
  EXPECT_NE(html.find("<h2 id=\"breakdown-section\">"), std::string::npos);
  EXPECT_NE(html.find("<li><a href=\"#breakdown-section\">"), std::string::npos);
  EXPECT_NE(html.find("<h3 id=\"breakdown\">"), std::string::npos);
}

TEST(ReportHtml, TheVerdictComesBeforeEveryFigure) {
  ReportHead head{"A title", "of a trace", "commlens"};
  head.verdict = {ReportVerdict::Tone::bad, {"Rank 3 is <slow>."}};
  const std::string html = page({{&k_bars, bars(1)}}, head);
  const std::size_t verdict =
      html.find("<div class=\"verdict bad\">\n<p>Rank 3 is &lt;slow&gt;.</p>\n</div>\n</header>");
  ASSERT_NE(verdict, std::string::npos);
  EXPECT_LT(verdict, html.find("<nav"));
}

Figure facts_of_inputs(const std::vector<std::array<std::string, 3>>& rows) {
  Figure figure;
  figure.id = "configuration";
  figure.title = "Configuration";
  figure.columns = {text_column("trace", "trace"), text_column("what", "what"),
                    text_column("value", "value")};
  for (const std::array<std::string, 3>& row : rows) {
    for (std::size_t at = 0; at < row.size(); ++at) {
      texts(figure.columns[at]).add(row[at]);
    }
  }
  figure.options = {{"facts", true}};
  return figure;
}

TEST(ReportHtml, SettingsOfOneInputAreAList) {
  const std::string html =
      page({{&k_table, facts_of_inputs({{"a", "layout", "dp 2"}, {"a", "batch", "4"}})}});
  EXPECT_NE(html.find("<div><dt>layout</dt><dd>dp 2</dd></div>\n<div><dt>batch</dt><dd>4</dd></div>"),
            std::string::npos);
}

TEST(ReportHtml, SettingsOfSeveralInputsStandSideBySide) {
  const std::string html = page(
      {{&k_table, facts_of_inputs({{"a", "layout", "dp 2"}, {"a", "batch", "4"}, {"b", "layout", "dp 4"}})}});
  EXPECT_NE(html.find("<th scope=\"col\">a</th><th scope=\"col\">b</th>"), std::string::npos);
  EXPECT_NE(html.find("<th scope=\"row\">layout</th><td>dp 2</td><td>dp 4</td>"), std::string::npos);
  EXPECT_NE(html.find("<th scope=\"row\">batch</th><td>4</td><td>-</td>"), std::string::npos);
}

TEST(ReportHtml, RowsSayTheirOpAndWhatTheySortBy) {
  Figure figure = bars(1);
  FigureColumn time = whole_column("time_ns", "time", "ns");
  wholes(time).push_back(1234567);
  figure.columns.push_back(std::move(time));
  figure.columns[1].in_table = false;
  const std::string html = page({{&k_bars, figure}});
  EXPECT_NE(html.find("<tr data-op=\"all_reduce\"><th scope=\"row\">all_reduce</th><td class=\"number\" "
                      "data-value=\"1234567\">1.23 ms</td></tr>"),
            std::string::npos);
  EXPECT_EQ(html.find(">calls</th>"), std::string::npos);
}

TEST(HtmlText, ReplacesEveryCharacterThatTurnsTheDirection) {
  for (const char* const turning : {"\u061C", "\u200E", "\u200F", "\u202A", "\u202E", "\u2066", "\u2069"}) {
    EXPECT_EQ(html_text(std::string("a") + turning + "b"),
              "a\xef\xbf\xbd"
              "b");
  }
}

TEST(ReportHtml, SaysWhyAFigureIsAbsent) {
  EXPECT_NE(
      page({{&k_absent, no_figure("the trace has no times")}}).find("Timeline: the trace has no times."),
      std::string::npos);
}

TEST(ReportHtml, LoadsNothing) {
  const std::string html = markup(page({{&k_bars, bars(1)}}));
  EXPECT_NE(html.find("default-src 'none'"), std::string::npos);
  for (const char* const loads : {"http:", "https:", "src=", "<link", "@import"}) {
    EXPECT_EQ(html.find(loads), std::string::npos) << loads;
  }
}

TEST(ReportHtml, ReadersFindTheirWay) {
  const std::string html = page({{&k_bars, bars(1)}});
  for (const char* const part : {"<html lang=\"en\">", "name=\"viewport\"", "class=\"skip\" href=\"#main\"",
                                 "<h1>A title</h1>", "<caption>Breakdown</caption>", "<th scope=\"col\">",
                                 "<th scope=\"row\">", "role=\"img\"", "href=\"#formula-wire-bytes\""}) {
    EXPECT_NE(html.find(part), std::string::npos) << part;
  }
}

TEST(ReportHtml, BuildsWithoutAScriptSaySo) {
  EXPECT_EQ(page({{&k_bars, bars(1)}}).find("This build of commlens has no charts") == std::string::npos,
            has_web_script());
}

TEST(IsReport, KnowsOurPagesByTheirHead) {
  EXPECT_TRUE(is_report(page({}).substr(0, 1024)));
  EXPECT_FALSE(is_report("<!DOCTYPE html><html><head><title>commlens report</title>"));
}

}  // namespace
}  // namespace commlens
