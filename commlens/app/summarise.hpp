#pragma once
#include <optional>
#include <string>

#include "commlens/app/events.hpp"
#include "commlens/base/result.hpp"
#include "commlens/report/timing_report.hpp"
#include "commlens/summary/statistics.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens {

/// A trace and its summary. The calls of a large native folder were read and are not kept: then `trace` has
/// tables and provenance alone, and `timing` says what the calls have to do with each other.
struct SummarySubject {
  Trace trace;
  bool has_calls = true;
  Summary summary;
  SummaryOptions options;              // of the request
  std::optional<TimingTotals> timing;  // without calls; absent where there are no times of single calls
};

/// Folders with more calls than this are not kept in memory: where every iteration is shown, … Nor are those
/// of a rank whose calls cannot be added up as they come, since it says when it computed: one at a time.
constexpr std::int64_t k_most_calls_in_memory = 5'000'000;
/// … and where totals are, which need not keep the calls.
constexpr std::int64_t k_most_calls_for_totals = 1'000'000;

/// What to summarise.
struct SummaryRequest {
  std::string trace;            // a native trace, a file that import reads, "-" (standard input)
  SummaryOptions options;       // a rank and iterations that the trace has
  bool with_timing = true;      // say where the time went, too
  bool with_stragglers = true;  // in that, match the calls of all ranks with each other
  std::int64_t most_calls = k_most_calls_in_memory;
  Events events;
};

/// Reads and summarises. Fails as open_trace does, for ranks and iterations that the trace does not have, and
/// for ranks per node where the trace does not tell which ranks are in a group.
Result<SummarySubject> summarise(const SummaryRequest& request);

}  // namespace commlens
