#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "commlens/report/figures/figure.hpp"
#include "commlens/report/figures/figure_input.hpp"

namespace commlens {

/// What a figure shows: a trace, or what a verb has written. Figures of what was not given are not in a
/// report.
enum class FigureSource : std::uint8_t { trace, layouts, scaling, simulated, measured, any };

/// One figure of the list: its section in the report, and the function that makes it.
struct FigureEntry {
  std::string_view id;
  std::string_view title;
  std::string_view section;
  FigureResult (*make)(const FigureInput& input);
  FigureSource source = FigureSource::trace;
};

/// The list of figures, in the order of the report; entries of a section are consecutive.
std::span<const FigureEntry> figure_entries();

/// An entry's figure, or the reason why it is absent.
struct MadeFigure {
  const FigureEntry* entry = nullptr;
  FigureResult figure;
};

/// Every figure of the list of what `input` has; each with the entry's id and title.
std::vector<MadeFigure> make_figures(const FigureInput& input);

}  // namespace commlens
