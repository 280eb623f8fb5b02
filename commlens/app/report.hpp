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

/// The inputs and options of a report.
struct ReportRequest {
  std::vector<std::string> arguments;  // traces and configurations, at least one
  std::string framework;               // for all configurations, or one per argument, separated by commas
  Overrides overrides;                 // changes to configurations
  std::optional<IterationRange> iterations;  // default: all
  std::int64_t ranks_per_node = 0;           // 0: wire bytes are not split by node
  std::string title;                         // empty: made from the arguments
  Events events;
  std::optional<Rank> rank{};  // whose calls alone are reported
};

/// A page and its figures.
struct ReportPage {
  std::string title;
  std::string html;                 // one page that needs nothing else
  std::vector<MadeFigure> figures;  // each, or why it is absent
  /// How many figures the page has.
  std::int64_t shown() const;
};

/// Reads or predicts the inputs, compares two of them, and makes every figure of docs/report.md. Fails if an
/// input cannot be read or predicted.
Result<ReportPage> report(const ReportRequest& request);

/// Writes DIR/ID.json and DIR/ID.csv of every figure, DIR/ID.svg of those that have a chart, and
/// DIR/index.json that lists them. Warns where no SVG can be drawn. Throws SystemError.
void write_figures(const std::string& directory, const ReportPage& page, const Events& events = {});

/// Fails if a page cannot be written to `file` ("-" is accepted), would overwrite one of the `inputs`, or,
/// unless `force`, would replace a file that is not a report.
Result<void> check_page_place(const std::string& file, const std::vector<std::string>& inputs, bool force);
/// The same for the figures in `directory`; an empty name is accepted.
Result<void> check_figures_place(const std::string& directory, const std::vector<std::string>& inputs);

}  // namespace commlens
