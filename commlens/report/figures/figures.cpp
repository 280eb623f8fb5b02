#include "commlens/report/figures/figures.hpp"

#include <array>

#include "commlens/base/check.hpp"
#include "commlens/report/figures/bandwidth_figure.hpp"
#include "commlens/report/figures/breakdown_figure.hpp"
#include "commlens/report/figures/bubble_figure.hpp"
#include "commlens/report/figures/busy_figure.hpp"
#include "commlens/report/figures/calls_figure.hpp"
#include "commlens/report/figures/choice_figures.hpp"
#include "commlens/report/figures/cold_figure.hpp"
#include "commlens/report/figures/configuration_figure.hpp"
#include "commlens/report/figures/coverage_figure.hpp"
#include "commlens/report/figures/differences_figure.hpp"
#include "commlens/report/figures/first_calls_figure.hpp"
#include "commlens/report/figures/formulas_figure.hpp"
#include "commlens/report/figures/iterations_figure.hpp"
#include "commlens/report/figures/lateness_figure.hpp"
#include "commlens/report/figures/matrix_figure.hpp"
#include "commlens/report/figures/measured_figure.hpp"
#include "commlens/report/figures/overlap_figure.hpp"
#include "commlens/report/figures/overview_figure.hpp"
#include "commlens/report/figures/prediction_figure.hpp"
#include "commlens/report/figures/provenance_figure.hpp"
#include "commlens/report/figures/recommendations_figure.hpp"
#include "commlens/report/figures/runs_figure.hpp"
#include "commlens/report/figures/search_figures.hpp"
#include "commlens/report/figures/simulated_figures.hpp"
#include "commlens/report/figures/sizes_figure.hpp"
#include "commlens/report/figures/slow_ranks_figure.hpp"
#include "commlens/report/figures/timeline_figure.hpp"
#include "commlens/report/figures/totals_figure.hpp"
#include "commlens/report/figures/waits_figure.hpp"

namespace commlens {
namespace {

constexpr std::string_view k_given = "Configuration";
constexpr std::string_view k_found = "Layouts found";
constexpr std::string_view k_simulated = "Simulated iteration";
constexpr std::string_view k_measured_calls = "Measured calls";
constexpr std::string_view k_overview = "Overview";
constexpr std::string_view k_volume = "What is communicated";
constexpr std::string_view k_time = "When, and who waits";
constexpr std::string_view k_against = "Side by side";
constexpr std::string_view k_advice = "What to change";
constexpr std::string_view k_sources = "Where the numbers come from";

constexpr std::array<FigureEntry, 37> k_entries = {{
    {"given", "Configuration", k_given, configuration_figure, FigureSource::any},
    {"search", "The search at a glance", k_found, search_figure, FigureSource::layouts},
    {"layouts", "Fastest layouts", k_found, layouts_figure, FigureSource::layouts},
    {"front", "Time and memory", k_found, front_figure, FigureSource::layouts},
    {"binding", "What binds the fastest", k_found, binding_figure, FigureSource::layouts},
    {"changes", "One change of the fastest", k_found, changes_figure, FigureSource::layouts},
    {"retimed", "Closed form and simulation", k_found, retimed_figure, FigureSource::layouts},
    {"scaling", "Scaling", k_found, scaling_figure, FigureSource::scaling},
    {"simulated", "The simulation at a glance", k_simulated, simulated_figure, FigureSource::simulated},
    {"simulated-time", "Where the time goes", k_simulated, simulated_time_figure, FigureSource::simulated},
    {"measured", "Time and bandwidth by size", k_measured_calls, measured_figure, FigureSource::measured},
    {"overview", "The trace at a glance", k_overview, overview_figure},
    {"totals", "One iteration, and initialisation", k_overview, totals_figure},
    {"runs", "What was given", k_overview, runs_figure},
    {"runs-by-op", "All of them per op", k_overview, runs_by_op_figure},
    {"breakdown", "Breakdown by op, group and phase", k_volume, breakdown_figure},
    {"init-breakdown", "Initialisation by op, group and phase", k_volume, init_breakdown_figure},
    {"iterations", "Iteration by iteration", k_volume, iterations_figure},
    {"sizes", "Message sizes", k_volume, sizes_figure},
    {"matrix", "Who sends to whom", k_volume, matrix_figure},
    {"timeline", "Timeline", k_time, timeline_figure},
    {"busy", "Time in calls, overlaps once", k_time, busy_figure},
    {"bandwidth", "Bus bandwidth by message size", k_time, bandwidth_figure},
    {"overlap", "Exposed and hidden communication", k_time, overlap_figure},
    {"cold", "Cold start", k_time, cold_figure},
    {"first-calls", "First calls on each group", k_time, first_calls_figure},
    {"slow-ranks", "Slow ranks", k_time, slow_ranks_figure},
    {"lateness", "Who came last", k_time, lateness_figure},
    {"waits", "Waits inside calls", k_time, waits_figure},
    {"bubble", "Pipeline bubble", k_time, bubble_figure},
    {"prediction", "The two sides per op", k_against, prediction_figure},
    {"differences", "Differences explained", k_against, differences_figure},
    {"calls", "Calls that differ", k_against, calls_figure},
    {"recommendations", "Recommendations", k_advice, recommendations_figure},
    {"coverage", "Coverage", k_sources, coverage_figure},
    {"provenance", "Provenance", k_sources, provenance_figure},
    {"formulas", "Formulas", k_sources, formulas_figure},
}};

/// Checks the invariants that every drawer and writer relies on.
void check(const Figure& figure) {
  for (const FigureColumn& column : figure.columns) {
    COMMLENS_CHECK(column.rows() == figure.rows(), "all columns of a figure have the same number of rows");
  }
}

bool has_source(const FigureInput& input, FigureSource source) {
  switch (source) {
    case FigureSource::any:
      return true;
    case FigureSource::trace:
      return input.subject.trace != nullptr;
    case FigureSource::layouts:
      return input.documents.layouts.has_value();
    case FigureSource::scaling:
      return input.documents.scaling.has_value();
    case FigureSource::simulated:
      return input.documents.simulated.has_value();
    case FigureSource::measured:
      return input.documents.measured.has_value();
  }
  return false;
}

}  // namespace

std::span<const FigureEntry> figure_entries() { return k_entries; }

std::vector<MadeFigure> make_figures(const FigureInput& input) {
  std::vector<MadeFigure> made;
  for (const FigureEntry& entry : k_entries) {
    if (!has_source(input, entry.source)) {
      continue;
    }
    made.push_back({&entry, entry.make(input)});
    if (FigureResult& figure = made.back().figure) {
      figure->id = entry.id;
      figure->title = entry.title;
      check(*figure);
    }
  }
  return made;
}

}  // namespace commlens
