#pragma once
#include <optional>
#include <string>
#include <vector>

#include "commlens/app/events.hpp"
#include "commlens/base/result.hpp"
#include "commlens/formats/io/sink.hpp"
#include "commlens/frameworks/overrides.hpp"

namespace commlens {

namespace formats {
struct Exporter;
}

/// The input, the format and the output of an export.
struct ExportRequest {
  std::vector<std::string> input;  // a native trace, a file that import reads, or a configuration to predict
  std::string framework;           // of a configuration: the rules to use; empty: those that it names
  Overrides overrides;             // changes to a configuration
  std::string format;  // the name of an exporter: calls, csv, perfetto, … (formats/formats.hpp lists them)
  std::string file;    // or a directory, by the format; a name that ends in .gz compresses what is one text
  formats::TextSink sink;  // receives the text where `file` is empty; formats of several files need one
  std::optional<Rank> rank;
  bool compute = false;  // also when each rank computed
  Events events;
};

/// Writes a trace, or the predicted calls of a configuration (initialisation and its iterations; with compute
/// steps and dependencies if the format has them), in the format of another tool. A file is written
/// completely or not at all. Fails if the format cannot hold the trace, if the output cannot be written, or
/// if it would overwrite the input. Throws SystemError.
Result<void> export_trace(const ExportRequest& request);

/// The exporters that have a property: "calls, csv".
std::string exporters_with(bool formats::Exporter::* property);

}  // namespace commlens
