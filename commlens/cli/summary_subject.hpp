#pragma once
#include <string>

#include "commlens/base/result.hpp"
#include "commlens/cli/console.hpp"
#include "commlens/summary/statistics.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens {

/// A trace and its summary. Of a large native folder the calls were read once and are not kept: then `trace`
/// has tables and provenance alone, and nothing that relates calls to each other can be said.
struct SummarySubject {
  Trace trace;
  bool has_calls = true;
  Summary summary;
};

/// Folders with more calls than this are not kept in memory.
constexpr std::int64_t k_most_calls_in_memory = 5'000'000;

/// --rank and --iterations, still to be checked against the trace.
struct SummaryWish {
  std::string trace;
  std::string iterations;
  SummaryOptions options;
  std::int64_t most_calls = k_most_calls_in_memory;
};

/// Reads and summarises. Fails as open_trace does, and for ranks and iterations that the trace does not have.
Result<SummarySubject> summary_subject(Console& console, SummaryWish wish);

}  // namespace commlens
