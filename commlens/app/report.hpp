#pragma once
#include <optional>
#include <string>
#include <vector>

#include "commlens/app/events.hpp"
#include "commlens/app/trace_source.hpp"
#include "commlens/base/result.hpp"
#include "commlens/frameworks/overrides.hpp"
#include "commlens/report/figures/figures.hpp"

namespace commlens {

/// What to report on.
struct ReportRequest {
  std::vector<std::string> arguments;  // traces and configurations, at least one
  std::string framework;               // for all configurations, or one per argument, separated by commas
  Overrides overrides;                 // what is changed in configurations
  std::optional<IterationRange> iterations;  // default: all
  std::int64_t ranks_per_node = 0;           // 0: wire bytes are not split by node
  std::string title;                         // empty: what the arguments make of it
  Events events;
};

/// A page, and what it is made of.
struct ReportPage {
  std::string title;
  std::string html;                 // one page that needs nothing else
  std::vector<MadeFigure> figures;  // each, or why there is none
  /// How many figures the page has.
  std::int64_t shown() const;
};

/// Reads, predicts, compares two of them, and makes every figure of docs/report.md. Fails for what cannot be
/// read or predicted.
Result<ReportPage> report(const ReportRequest& request);

/// Writes DIR/ID.json and DIR/ID.csv of every figure, and DIR/index.json that lists them. Throws SystemError.
void write_figures(const std::string& folder, const ReportPage& page);

/// Fails where a page cannot be written to `file` ("-" passes), would harm one of the `inputs`, or, unless
/// `force`, replaces a file that is no report.
Result<void> check_page_place(const std::string& file, const std::vector<std::string>& inputs, bool force);
/// The same of the figures in `folder`; an empty name passes.
Result<void> check_figures_place(const std::string& folder, const std::vector<std::string>& inputs);

}  // namespace commlens
