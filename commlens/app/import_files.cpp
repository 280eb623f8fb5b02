#include "commlens/app/import_files.hpp"

#include <utility>

#include "commlens/app/output_place.hpp"
#include "commlens/app/trace_source.hpp"
#include "commlens/summary/stragglers.hpp"
#include "commlens/trace/merge_traces.hpp"
#include "commlens/trace/trace_directory.hpp"
#include "commlens/trace/trace_file.hpp"

namespace commlens {
namespace {

/// Counts the calls that have counterparts on the other ranks.
std::optional<ImportResult::Matched> matched_in(const Trace& trace) {
  const Stragglers found = stragglers(trace);
  if (found.instances + found.messages + found.incomplete == 0) {
    return std::nullopt;
  }
  return ImportResult::Matched{found.instances, found.messages, found.incomplete};
}

}  // namespace

Result<ImportResult> import_files(const ImportRequest& request) {
  if (request.files.empty()) {
    return failure("no file to import is given");
  }
  if (const Result<void> usable = check_trace_place("-o", request.directory, request.files); !usable) {
    return tl::unexpected(usable.error());
  }
  std::vector<Trace> traces;
  for (const std::string& file : request.files) {
    Result<Trace> trace = open_trace(request.events, file);
    if (!trace) {
      return tl::unexpected(trace.error());
    }
    traces.push_back(std::move(*trace));
  }
  const Result<Trace> trace = merged(std::move(traces), request.files);
  if (!trace) {
    return tl::unexpected(trace.error());
  }
  write_trace(*trace, request.directory);
  ImportResult result;
  double calls = 0;
  for (const RankStream& stream : trace->streams) {
    result.ranks += stream.ranks.count();
    calls += static_cast<double>(stream.events.size()) * static_cast<double>(stream.ranks.count());
  }
  result.calls = static_cast<std::int64_t>(calls);
  result.matched = request.files.size() > 1 ? matched_in(*trace) : std::nullopt;
  result.skipped = trace->provenance.skipped;
  result.assumed = trace->provenance.assumed;
  return result;
}

}  // namespace commlens
