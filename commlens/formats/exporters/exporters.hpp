#pragma once
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "commlens/base/result.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens {

/// What of a trace is written.
struct CallSelection {
  std::optional<Rank> rank;  // only this one's calls
  bool compute = false;      // behind the calls of a rank, the lines that say when it computed
};

/// Writes one JSON object per call per rank (docs/formats/calls.md), rank by rank, each in issue order.
/// `sink` receives whole lines in blocks of about 1 MiB.
using TextSink = std::function<void(std::string_view)>;
void write_calls_jsonl(const Trace& trace, const CallSelection& selection, const TextSink& sink);

/// The same table as CSV with a header line; groups as "0 1 2".
void write_calls_csv(const Trace& trace, const CallSelection& selection, const TextSink& sink);

/// Runs `write` into `destination`: "-" is standard output, a name ending in .gz is compressed, a file
/// appears whole or not at all. Throws SystemError when it cannot be written.
void write_stream(const std::string& destination, const std::function<void(const TextSink&)>& write);

}  // namespace commlens
