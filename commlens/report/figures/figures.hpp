#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "commlens/report/figures/figure.hpp"
#include "commlens/report/figures/figure_input.hpp"

namespace commlens {

/// One figure of the list: where it stands in the report, and how it is made.
struct FigureEntry {
  std::string_view id;
  std::string_view title;
  std::string_view section;
  FigureResult (*make)(const FigureInput& input);
};

/// The one list of figures, in the order of the report; entries of a section stand together.
std::span<const FigureEntry> figure_entries();

/// An entry's figure, or why there is none.
struct MadeFigure {
  const FigureEntry* entry = nullptr;
  FigureResult figure;
};

/// Every figure of the list for `input`; each with the entry's id and title.
std::vector<MadeFigure> make_figures(const FigureInput& input);

}  // namespace commlens
