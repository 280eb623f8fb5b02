#pragma once
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "commlens/base/result.hpp"
#include "commlens/formats/io/sink.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens::formats {

/// One foreign format. `head` is the first 64 KiB of the (decompressed) file.
struct Importer {
  std::string_view name;
  bool (*sniff)(const std::filesystem::path& path, std::string_view head);
  Result<Trace> (*read)(const std::filesystem::path& path);
};

/// The one list, in the order in which formats are tried.
std::span<const Importer> importers();

/// "calls-jsonl, calls-csv, …", for messages.
std::string importer_names();

/// One format that a trace can be written in. Exactly one of `stream`, `file` and `directory` is set. Each of
/// them fails when the trace has something that the format cannot say and that is not skipped, and throws
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
  /// Fills the directory `path`, which is empty.
  Result<void> (*directory)(const Trace& trace, const CallSelection& selection,
                            const std::filesystem::path& path) = nullptr;
  /// Of a `directory`: the file in it that other programs are given ("traces.otf2"). A destination of the
  /// same extension ("x.otf2") gets the content of the directory beside it, "traces" replaced by its own
  /// name.
  std::string_view anchor;
};

/// The one list, in the order of the help text.
std::span<const Exporter> exporters();

/// The exporter of that name; null when there is none.
const Exporter* exporter_named(std::string_view name);

}  // namespace commlens::formats
