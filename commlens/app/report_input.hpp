#pragma once
#include <memory>
#include <string>
#include <vector>

#include "commlens/app/compare_sides.hpp"
#include "commlens/app/report.hpp"
#include "commlens/base/result.hpp"
#include "commlens/report/figures/figure_input.hpp"

namespace commlens {

/// Traces read or predicted, and what the figures are made of; `input` refers to `sides`.
struct ReportMaterial {
  std::vector<Side> sides;
  FigureInput input;
};

/// Reads and predicts what was asked for, compares two, and summarises the one the report is about: the
/// first, or the trace when a configuration stands beside one.
Result<std::unique_ptr<ReportMaterial>> report_material(const ReportRequest& request);

}  // namespace commlens
