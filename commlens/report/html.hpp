#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "commlens/report/figures/figures.hpp"

namespace commlens {

/// Text for HTML, between tags or inside a quoted attribute: special characters are escaped, invalid UTF-8
/// and characters that change the text direction become U+FFFD, control characters their pictures (U+2400 …).
std::string html_text(std::string_view text);

/// Texts above and below the figures.
struct ReportHead {
  std::string title;
  std::string subtitle;  // one line
  std::string producer;  // "commlens 0.1.0"
};

/// One self-contained HTML page, which makes no network request. Tables are complete without a script, up to
/// k_most_table_rows rows each; the script of web_assets.hpp draws the charts.
std::string report_html(const ReportHead& head, const std::vector<MadeFigure>& figures);

constexpr std::size_t k_most_table_rows = 1000;

/// Whether a file begins like a page made by report_html.
bool is_report(std::string_view head_of_file);

}  // namespace commlens
