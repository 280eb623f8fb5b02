#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "commlens/base/table.hpp"
#include "commlens/summary/bubble.hpp"
#include "commlens/summary/overlap.hpp"
#include "commlens/summary/stragglers.hpp"
#include "commlens/summary/time_tally.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens {

/// A caution on overlap for traces whose Provenance::progress is false.
constexpr std::string_view k_no_progress =
    "transport without progress: overlap not meaningful (data moved only while a rank waited for them)";

/// What exposed communication is in a simulated trace, where `simulate` itself is finer.
constexpr std::string_view k_simulated_exposed =
    "exposed: in calls and not computing, so it counts waiting inside calls for other ranks; simulate counts "
    "that as bubble and waiting";

/// Timing analyses of a trace (docs/timing.md), per iteration.
struct Timing {
  std::vector<IterationOverlap> overlap;  // the first ones
  std::int64_t overlap_rows = 0;          // that there are
  Bubbles bubbles;                        // its rows: the first ones
  std::int64_t bubble_rows = 0;           // that there are
  TimeTotals totals;                      // of all rows
  std::optional<Stragglers> waits;        // absent: calls were not matched
};

/// All timing analyses of the selected iterations, with rows of the first `most_rows` iterations of ranks.
/// Waits are matched between all ranks, even if one rank is selected.
Timing timing_of(const Trace& trace, const TimeSelection& selection, bool with_stragglers,
                 std::size_t most_rows = SIZE_MAX);

/// The same added up over iterations.
struct TimingTotals {
  TimeTotals times;
  std::optional<Stragglers> waits;
};
TimingTotals timing_totals_of(const Trace& trace, const TimeSelection& selection, bool with_stragglers);

/// Keeps the waits of the selected rank.
void select_rank(Stragglers& waits, const TimeSelection& selection);

/// Tables of overlap, waits and bubble, each under a title; of many ranks, those with the largest values. For
/// a trace without times, one line that says so. `tables` need not have the calls.
std::string timing_text(const Trace& tables, const TimingTotals& timing, const TextStyle& style);

/// {"schema": "commlens.timing/1", "overlap": […], "overlap_totals": …, "waits": …, "bubble": …,
/// "bubble_totals": …}, times in "_ns"; "overlap_rows" and "bubble_rows" say how many rows there are.
nlohmann::ordered_json timing_json(const Trace& trace, const Timing& timing);
/// The same without "overlap" and "bubble", which have a row for each iteration. `tables` need not have the
/// calls.
nlohmann::ordered_json timing_totals_json(const Trace& tables, const TimingTotals& timing);

}  // namespace commlens
