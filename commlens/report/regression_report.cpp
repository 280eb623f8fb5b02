#include "commlens/report/regression_report.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commlens/base/units.hpp"
#include "commlens/base/wrapped.hpp"
#include "commlens/report/shares.hpp"
#include "commlens/report/table_json.hpp"
#include "commlens/report/vocabulary.hpp"

namespace commlens {
namespace {

using Json = nlohmann::ordered_json;

std::string_view name_of(CallMetric metric) { return metric == CallMetric::p50 ? "p50" : "p95"; }

std::string p_text(double p) {
  constexpr double least = 1e-4;
  return p < least ? "< 0.0001" : fmt::format("{:.4f}", p);
}

const char* verdict_of(const RegressionRow& row) {
  return row.is_slower ? "slower" : row.is_faster ? "faster" : "same";
}

std::int64_t slower_rows(const Regression& regression) {
  return std::count_if(regression.rows.begin(), regression.rows.end(),
                       [](const RegressionRow& row) { return row.is_slower; });
}

std::string verdict_text(const Regression& regression, const TextStyle& style) {
  const std::int64_t slower = slower_rows(regression);
  const std::string limit = fmt::format("{:g} %", 100 * regression.options.tolerance);
  const std::string verdict =
      slower == 0
          ? fmt::format("no regression: no row of {} is slower in B by more than {} and significantly",
                        regression.rows.size(), limit)
          : fmt::format("regression: {} of {} rows are slower in B by more than {}, significantly", slower,
                        regression.rows.size(), limit);
  return in_colour(verdict, slower == 0 ? Colour::green : Colour::red, style);
}

std::string method_text(const Regression& regression) {
  std::string text = fmt::format(
      "per row and iteration the {} over all ranks' calls; medians over iterations; p: Mann-Whitney, "
      "two-sided, "
      "Holm-adjusted over the rows, significant below {:g}; initialisation and each run's first iteration "
      "skipped\n",
      name_of(regression.options.metric), regression.options.significance);
  if (!regression.has_enough()) {
    text += fmt::format(
        "too few iterations: some rows cannot be significant; with {} steady iterations in each run all "
        "can\n",
        regression.iterations_needed + 1);
  }
  if (regression.progress_a == false || regression.progress_b == false) {
    const bool both = regression.progress_a == regression.progress_b;
    text += fmt::format(
        "{}: transport without progress: overlap not meaningful; its calls count from when a rank waits\n",
        both                             ? "A and B"
        : regression.progress_a == false ? "A"
                                         : "B");
  }
  return text;
}

Json progress_json(const std::optional<bool>& progress) { return progress ? Json(*progress) : Json(nullptr); }

/// Iterations of one run; the text table shows those of both runs in one column.
Cell iterations_cell(const RegressionRow& row) {
  return Cell(row.iterations_a).shown(fmt::format("{} / {}", row.iterations_a, row.iterations_b));
}

Table regression_table(const Regression& regression) {
  Table table(columns({"op", "axis", Column{.key = "phase", .drop_first = 3},
                       Column{.key = "calls_per_iteration_all_ranks", .title = "calls", .drop_first = 2},
                       Column{.key = "iteration_count_a", .title = "iterations", .drop_first = 1},
                       data("iteration_count_b"), "time_a_ns", "time_b_ns", "ratio", data("p"),
                       Column{.key = "p_adjusted", .title = "p"}, "verdict",
                       Column{.key = "name", .in_text = false, .optional = true}}));
  for (const RegressionRow& row : regression.rows) {
    const bool is_other = !row.is_step && row.kind == CommKind::other;
    const std::string_view op = row.is_step ? "step" : name_of(row.kind);
    const auto of_calls = [&](Cell cell) { return row.is_step ? Cell() : std::move(cell); };
    table.add({Cell(op).shown(is_other ? row.name : std::string(op)), of_calls(name_of(row.axis)),
               of_calls(name_of(row.phase)), of_calls(row.calls), iterations_cell(row), row.iterations_b,
               row.a, row.b,
               std::isfinite(row.ratio()) ? Cell(row.ratio()).shown(fmt::format("{:.3f}", row.ratio()))
                                          : or_dash({}),
               row.p, Cell(row.p_adjusted).shown(p_text(row.p_adjusted)), verdict_of(row),
               is_other ? Cell(row.name) : Cell()});
  }
  return table;
}

}  // namespace

std::string regression_text(const Regression& regression, const TextStyle& style) {
  return verdict_text(regression, style) + "\n" + wrapped(method_text(regression), style) + "\n" +
         regression_table(regression).text_with_hidden(style);
}

Json regression_json(const Regression& regression) {
  return {{"schema", "commlens.compare_regression/2"},
          {"regressed", regression.any_slower()},
          {"tolerance", regression.options.tolerance},
          {"significance", regression.options.significance},
          {"metric", name_of(regression.options.metric)},
          {"test", "Mann-Whitney U, normal approximation with tie correction, two-sided; Holm over the rows"},
          {"enough_iterations", regression.has_enough()},
          {"progress_a", progress_json(regression.progress_a)},
          {"progress_b", progress_json(regression.progress_b)},
          {"rows", rows_json(regression_table(regression))}};
}

std::string regression_csv(const Regression& regression) { return regression_table(regression).csv(); }

}  // namespace commlens
