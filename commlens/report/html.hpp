#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "commlens/report/figures/figures.hpp"

namespace commlens {

/// Text for HTML, between tags or inside a quoted attribute: what has a meaning there is escaped, bytes that
/// are no UTF-8 and characters that turn text around become U+FFFD, control characters their pictures (U+2400
/// …).
std::string html_text(std::string_view text);

/// What stands above and below the figures.
struct ReportHead {
  std::string title;
  std::string subtitle;  // one line
  std::string producer;  // "commlens 0.1.0"
};

/// One HTML page that needs nothing else: no request leaves it. Tables are complete without a script, up to
/// k_most_table_rows rows each; web_assets.hpp draws the charts.
std::string report_html(const ReportHead& head, const std::vector<MadeFigure>& figures);

constexpr std::size_t k_most_table_rows = 1000;

/// Whether a file begins like a page made by report_html.
bool is_report(std::string_view head_of_file);

}  // namespace commlens
