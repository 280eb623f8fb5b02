#pragma once
#include <span>
#include <string_view>

#include "commlens/report/figures/figure.hpp"
#include "commlens/report/figures/figure_input.hpp"

namespace commlens {

/// A definition used by numbers of a report.
struct Formula {
  std::string_view id;  // as in Figure::formulas
  std::string_view title;
  std::string_view text;    // the formula, with its letters explained
  std::string_view source;  // where it is derived
};

/// The one list, in the order of the report.
std::span<const Formula> formulas();

/// The definitions that the report's numbers follow, and the paper's equations where a job was predicted.
FigureResult formulas_figure(const FigureInput& input);

}  // namespace commlens
