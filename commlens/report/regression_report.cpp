#include "commlens/report/regression_report.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commlens/base/units.hpp"
#include "commlens/report/advice_report.hpp"
#include "commlens/report/csv.hpp"
#include "commlens/report/wrapped.hpp"

namespace commlens {
namespace {

using Json = nlohmann::ordered_json;

std::string_view name_of(CallMetric metric) { return metric == CallMetric::p50 ? "p50" : "p95"; }

std::string op_text(const RegressionRow& row) {
  return row.is_step ? "step" : row.kind == CommKind::other ? row.name : std::string(name_of(row.kind));
}

std::string axis_text(const RegressionRow& row) { return row.is_step ? "" : std::string(name_of(row.axis)); }
std::string phase_text(const RegressionRow& row) {
  return row.is_step ? "" : std::string(name_of(row.phase));
}

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
      "left out\n",
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

Json ratio_json(const RegressionRow& row) {
  return std::isfinite(row.ratio()) ? Json(row.ratio()) : Json(nullptr);
}

double seconds(std::chrono::nanoseconds time) { return static_cast<double>(time.count()) * 1e-9; }

}  // namespace

std::string regression_text(const Regression& regression, const TextStyle& style) {
  Table table({{.title = "op"},
               {.title = "axis"},
               {.title = "phase", .drop_first = 3},
               {.title = "calls", .align = Column::Align::right, .drop_first = 2},
               {.title = "iterations", .align = Column::Align::right, .drop_first = 1},
               {.title = "A", .align = Column::Align::right},
               {.title = "B", .align = Column::Align::right},
               {.title = "B / A", .align = Column::Align::right},
               {.title = "p", .align = Column::Align::right},
               {.title = "verdict"}});
  for (const RegressionRow& row : regression.rows) {
    const std::string ratio = std::isfinite(row.ratio()) ? fmt::format("{:.3f}", row.ratio()) : "-";
    table.add({op_text(row), axis_text(row), phase_text(row), row.is_step ? "" : with_commas(row.calls),
               fmt::format("{} / {}", row.iterations_a, row.iterations_b), to_text(row.a), to_text(row.b),
               ratio, p_text(row.p_adjusted), verdict_of(row)});
  }
  return verdict_text(regression, style) + "\n" + wrapped(method_text(regression), style) + "\n" +
         table.text_with_hidden(style);
}

Json regression_json(const Regression& regression) {
  Json rows = Json::array();
  for (const RegressionRow& row : regression.rows) {
    rows.push_back({{"op", op_text(row)},
                    {"axis", axis_text(row)},
                    {"phase", phase_text(row)},
                    {"calls_per_iteration_all_ranks", row.calls},
                    {"iterations_a", row.iterations_a},
                    {"iterations_b", row.iterations_b},
                    {"a_s", seconds(row.a)},
                    {"b_s", seconds(row.b)},
                    {"ratio", ratio_json(row)},
                    {"p", row.p},
                    {"p_adjusted", row.p_adjusted},
                    {"verdict", verdict_of(row)}});
  }
  return {{"schema", "commlens.compare_regression/1"},
          {"regressed", regression.any_slower()},
          {"tolerance", regression.options.tolerance},
          {"significance", regression.options.significance},
          {"metric", name_of(regression.options.metric)},
          {"test", "Mann-Whitney U, normal approximation with tie correction, two-sided; Holm over the rows"},
          {"enough_iterations", regression.has_enough()},
          {"progress_a", progress_json(regression.progress_a)},
          {"progress_b", progress_json(regression.progress_b)},
          {"rows", rows}};
}

std::string regression_csv(const Regression& regression) {
  std::string text = csv_line(
      std::array<std::string, 11>{"op", "axis", "phase", "calls_per_iteration_all_ranks", "iterations_a",
                                  "iterations_b", "a_s", "b_s", "p", "p_adjusted", "verdict"});
  for (const RegressionRow& row : regression.rows) {
    text += csv_line(std::array<std::string, 11>{
        op_text(row), axis_text(row), phase_text(row), std::to_string(row.calls),
        std::to_string(row.iterations_a), std::to_string(row.iterations_b), fmt::format("{}", seconds(row.a)),
        fmt::format("{}", seconds(row.b)), fmt::format("{}", row.p), fmt::format("{}", row.p_adjusted),
        verdict_of(row)});
  }
  return text;
}

}  // namespace commlens
