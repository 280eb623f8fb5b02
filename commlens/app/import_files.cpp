#include "commlens/app/import_files.hpp"

#include <algorithm>
#include <utility>

#include "commlens/app/output_place.hpp"
#include "commlens/app/trace_source.hpp"
#include "commlens/formats/join_profile.hpp"
#include "commlens/summary/stragglers.hpp"
#include "commlens/trace/merge_traces.hpp"
#include "commlens/trace/trace_directory.hpp"
#include "commlens/trace/trace_file.hpp"

namespace commlens {
namespace {

/// Counts the calls that have counterparts on the other ranks. Nothing where ranks lack times, by which they
/// are matched.
std::optional<ImportResult::Matched> matched_in(const Trace& trace) {
  const auto lacks_times = [](const RankStream& stream) {
    return stream.times.size() < stream.events.size();
  };
  if (std::any_of(trace.streams.begin(), trace.streams.end(), lacks_times)) {
    return std::nullopt;
  }
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
  const bool is_join = request.assume_world || formats::is_profile_and_log(traces);
  const Result<Trace> trace =
      is_join ? formats::join_profile(std::move(traces), {request.files, request.assume_world})
              : merged(std::move(traces), request.files);
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
