#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "commlens/report/figures/figures.hpp"
#include "commlens/report/html_table.hpp"
#include "commlens/report/html_text.hpp"
#include "commlens/report/verdict.hpp"

namespace commlens {

/// Texts above and below the figures.
struct ReportHead {
  std::string title;
  std::string subtitle;              // one line
  std::string producer;              // "commlens 0.2.0"
  ReportVerdict verdict = {};        // the first block
  std::vector<PageLink> links = {};  // pages beside it
};

/// One self-contained HTML page, which makes no network request. Tables are complete without a script, up to
/// k_most_table_rows rows each; the script of web_assets.hpp draws the charts.
std::string report_html(const ReportHead& head, const std::vector<MadeFigure>& figures);

/// Whether a file begins like a page made by report_html.
bool is_report(std::string_view head_of_file);

}  // namespace commlens
