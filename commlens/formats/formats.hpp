#pragma once
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
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

/// Receives text (or bytes) in blocks of about 1 MiB.
using TextSink = std::function<void(std::string_view)>;

/// One format that a trace can be written in. Exactly one of `stream`, `file` and `folder` is set. Each of
/// them fails when the trace has something that the format cannot say and that is not left out, and throws
/// SystemError when the disk does.
struct Exporter {
  std::string_view name;         // export --to NAME
  std::string_view description;  // "JSON Lines, one call per line"
  bool is_text = true;           // may be written to a terminal
  bool takes_rank = false;       // knows CallSelection::rank
  bool takes_compute = false;    // knows CallSelection::compute; the others decide themselves
  /// Gives the content of the one file to `sink`, whole lines where it is text.
  Result<void> (*stream)(const Trace& trace, const CallSelection& selection, const TextSink& sink) = nullptr;
  /// Makes the file `path`, which does not exist yet.
  Result<void> (*file)(const Trace& trace, const CallSelection& selection,
                       const std::filesystem::path& path) = nullptr;
  /// Fills the folder `path`, which is empty.
  Result<void> (*folder)(const Trace& trace, const CallSelection& selection,
                         const std::filesystem::path& path) = nullptr;
  /// Of a `folder`: the file in it that other programs are given ("traces.otf2"). A destination of the same
  /// extension ("x.otf2") gets the content of the folder beside it, "traces" replaced by its own name.
  std::string_view anchor;
};

/// The one list, in the order of the help text.
std::span<const Exporter> exporters();

/// The exporter of that name; null when there is none.
const Exporter* exporter_named(std::string_view name);

/// Writes the trace to `destination`: a file (.gz compresses streams; "-" is standard output, streams only)
/// or a folder. It appears whole or not at all. Fails when the exporter does, when one that writes a file or
/// a folder is sent to standard output or to a name ending in .gz, and when a folder stands at the
/// destination of a folder in which anything else is than an earlier export of the same names. Throws
/// SystemError when it cannot be written.
Result<void> write_export(const Exporter& exporter, const Trace& trace, const CallSelection& selection,
                          const std::string& destination);

/// Writes one JSON object per call per rank (docs/formats/calls.md), rank by rank, each in issue order.
void write_calls_jsonl(const Trace& trace, const CallSelection& selection, const TextSink& sink);

/// The same table as CSV with a header line; groups as "0 1 2".
void write_calls_csv(const Trace& trace, const CallSelection& selection, const TextSink& sink);

/// Runs `write` into `destination`: "-" is standard output, a name ending in .gz is compressed, a file
/// appears whole or not at all. Throws SystemError when it cannot be written.
void write_stream(const std::string& destination, const std::function<void(const TextSink&)>& write);

/// The same of a `write` that may fail; then a file is left as it was.
Result<void> try_write_stream(const std::string& destination,
                              const std::function<Result<void>(const TextSink&)>& write);

}  // namespace commlens
