#pragma once
#include <memory>
#include <string>
#include <vector>

#include "commlens/base/result.hpp"
#include "commlens/cli/compare_sides.hpp"
#include "commlens/cli/console.hpp"
#include "commlens/cli/layout_flags.hpp"
#include "commlens/report/figures/figure_input.hpp"

namespace commlens {

/// What `commlens report` is asked to show.
struct ReportRequest {
  std::vector<std::string> arguments;  // traces and configurations, at least one
  std::string framework;               // for all configurations, or one per argument, separated by commas
  std::string iterations;              // FIRST-[LAST]
  std::int64_t ranks_per_node = 0;
  LayoutFlags layout;
};

/// Traces read or predicted, and what the figures are made of; `input` refers to `sides`.
struct ReportMaterial {
  std::vector<Side> sides;
  FigureInput input;
};

/// Reads and predicts what was asked for, compares two, and summarises the one the report is about: the
/// first, or the trace when a configuration stands beside one.
Result<std::unique_ptr<ReportMaterial>> report_material(Console& console, const ReportRequest& request);

}  // namespace commlens
