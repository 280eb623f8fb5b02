#pragma once
#include <map>
#include <optional>
#include <string>

#include "commlens/app/events.hpp"
#include "commlens/base/result.hpp"
#include "commlens/report/timing_report.hpp"
#include "commlens/summary/statistics.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens {

/// A trace and its summary. The calls of a large native directory were read and are not kept: then `trace`
/// has tables and provenance only, and `timing` holds the analyses that relate calls to each other.
struct SummarySubject {
  Trace trace;
  bool has_calls = true;
  Summary summary;
  SummaryOptions options;                 // of the request
  std::optional<TimingTotals> timing;     // without calls; absent where there are no times of single calls
  std::map<NameId, std::string> sites{};  // how call sites are shown, by SummaryOptions::by_site
};

/// Directories with more calls than this are not kept in memory if every iteration is shown. A rank with
/// compute intervals is read as a whole, one rank at a time, and skipped if it has more calls than this.
constexpr std::int64_t k_most_calls_in_memory = 5'000'000;
/// The same if totals are shown, which do not need the calls in memory.
constexpr std::int64_t k_most_calls_for_totals = 1'000'000;

/// What to summarise.
struct SummaryRequest {
  std::string trace;            // a native trace, a file that import reads, "-" (standard input)
  SummaryOptions options;       // a rank and iterations that the trace has
  bool with_timing = true;      // include the timing analyses
  bool with_stragglers = true;  // in that, match the calls of all ranks with each other
  std::int64_t most_calls = k_most_calls_in_memory;
  Events events;
};

/// Reads and summarises a trace. Fails as open_trace does, on ranks and iterations that the trace does not
/// have, and on ranks per node if the members of groups are not known.
Result<SummarySubject> summarise(const SummaryRequest& request);

}  // namespace commlens
