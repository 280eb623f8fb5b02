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

/// What to write, and how.
struct ExportRequest {
  std::vector<std::string> input;  // a native trace, a file that import reads, or a configuration to predict
  std::string framework;           // of a configuration: whose rules; empty: those that it names
  Overrides overrides;             // what is changed in a configuration
  std::string format;  // the name of an exporter: calls, csv, perfetto, … (formats/formats.hpp lists them)
  std::string file;    // or a directory, by the format; a name that ends in .gz compresses what is one text
  formats::TextSink sink;  // receives the text where `file` is empty; formats of several files need one
  std::optional<Rank> rank;
  bool compute = false;  // also when each rank computed
  Events events;
};

/// Writes a trace, or the calls that a configuration predicts (initialisation and its iterations, with the
/// computing between them and what waits for what where the format has dependencies), in the format of
/// another tool: whole or not at all where it goes to a file. Fails for what the format cannot hold, for a
/// place that cannot be written and for one that would harm the trace that is read. Throws SystemError.
Result<void> export_trace(const ExportRequest& request);

/// The exporters that have a property: "calls, csv".
std::string exporters_with(bool formats::Exporter::* property);

}  // namespace commlens
