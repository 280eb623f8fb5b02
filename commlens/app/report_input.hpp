#pragma once
#include <memory>
#include <string>
#include <vector>

#include "commlens/app/compare_sides.hpp"
#include "commlens/app/report.hpp"
#include "commlens/base/result.hpp"
#include "commlens/report/figures/figure_input.hpp"

namespace commlens {

/// Traces, read or predicted, and the input of the figures; `input` refers to `sides`.
struct ReportMaterial {
  std::vector<Side> sides;
  FigureInput input;
};

/// Reads or predicts the requested inputs, compares two, and summarises the subject of the report: the first
/// input, or the trace if the other one is a configuration.
Result<std::unique_ptr<ReportMaterial>> report_material(const ReportRequest& request);

}  // namespace commlens
