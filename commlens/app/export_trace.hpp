#pragma once
#include <optional>
#include <string>

#include "commlens/app/events.hpp"
#include "commlens/base/result.hpp"
#include "commlens/formats/io/sink.hpp"

namespace commlens {

namespace formats {
struct Exporter;
}

/// What to write, and how.
struct ExportRequest {
  std::string trace;   // a native trace, or a file that import reads
  std::string format;  // the name of an exporter: calls, csv, perfetto, … (formats/formats.hpp lists them)
  std::string file;    // or a directory, by the format; a name that ends in .gz compresses what is one text
  formats::TextSink sink;  // receives the text where `file` is empty; formats of several files need one
  std::optional<Rank> rank;
  bool compute = false;  // also when each rank computed
  Events events;
};

/// Writes a trace in the format of another tool: whole or not at all where it goes to a file. Fails for what
/// the format cannot hold, for a place that cannot be written and for one that would harm the trace that is
/// read. Throws SystemError.
Result<void> export_trace(const ExportRequest& request);

/// The exporters that have a property: "calls, csv".
std::string exporters_with(bool formats::Exporter::* property);

}  // namespace commlens
