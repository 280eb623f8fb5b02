#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "commlens/base/result.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens {

/// A stream as the manifest names it.
struct StreamEntry {
  std::string file;  // within the trace folder
  RankRange ranks;
  std::optional<std::int64_t> events;  // absent while a recording goes on
  std::string tables;                  // recordings: the file of the rank's own tables; else empty
  std::string compute;                 // the file of its compute stretches; empty where they are not known
};

/// What manifest.json holds: everything but the events (docs/formats/trace.md).
struct Manifest {
  Trace tables;                      // no streams yet
  std::vector<OpId> ops;             // row in the file -> op of `tables`
  std::vector<StreamEntry> streams;  // ascending, no rank twice
};

constexpr std::string_view k_manifest_name = "manifest.json";
constexpr std::string_view k_trace_schema = "commlens.trace/1";

/// The text of manifest.json.
std::string manifest_text(const Trace& trace, const std::vector<StreamEntry>& streams);

/// Reads and checks manifest.json; the error names the file and the field.
Result<Manifest> read_manifest(const std::filesystem::path& file);

}  // namespace commlens
