#pragma once
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "commlens/base/result.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens {

/// How the clock of a recorded rank stood to that of rank 0.
struct ClockAlignment {
  std::chrono::nanoseconds at{};      // on the rank's clock …
  std::chrono::nanoseconds offset{};  // … this was to be added to it
  std::int64_t drift_ppb = 0;         // and changed by this from then on, in parts per billion
  std::chrono::nanoseconds error{};   // how far both together may be off, either way
  friend bool operator==(const ClockAlignment&, const ClockAlignment&) = default;
};

/// Of the files of a stream: how their records are to be read (docs/formats/trace.md).
constexpr std::int64_t k_files_version = 2;

/// A stream as the manifest names it.
struct StreamEntry {
  std::string file;  // within the trace directory
  RankRange ranks;
  std::optional<std::int64_t> events;   // absent while a recording goes on
  std::string tables;                   // recordings: the file of the rank's own tables; else empty
  std::optional<ClockAlignment> clock;  // finished recordings of ranks that compared their clocks
  std::string compute;                  // the file of its compute intervals; empty where they are not known
  std::int64_t version = k_files_version;  // of its files, for when their headers are lost
  std::int64_t ring = 0;                   // its file is a ring of so many records; 0: it grows
  /// Not of the manifest: before it calls of some rank were overwritten.
  Iteration first_iteration = k_unknown_iteration;
};

/// What manifest.json holds: everything but the events (docs/formats/trace.md).
struct Manifest {
  Trace tables;                      // no streams yet
  std::vector<OpId> ops;             // row in the file -> op of `tables`
  std::vector<StreamEntry> streams;  // ascending, no rank twice
};

/// A row of a rank's tables that was lost with a part of the file.
constexpr OpId k_lost_op{UINT32_MAX};

constexpr std::string_view k_manifest_name = "manifest.json";
constexpr std::string_view k_trace_schema = "commlens.trace/2";
constexpr std::string_view k_trace_schema_1 =
    "commlens.trace/1";  // read: a mesh of three axes, pp, dp and tp

/// The streams of a recording of these ranks, with the names that a Recorder gives their files.
std::vector<StreamEntry> recording_streams(const std::vector<Rank>& ranks);

/// The text of manifest.json.
std::string manifest_text(const Trace& trace, const std::vector<StreamEntry>& streams);

/// Reads and checks manifest.json; the error names the file and the field.
Result<Manifest> read_manifest(const std::filesystem::path& file);
/// The same of its text; errors name `file`.
Result<Manifest> manifest_from(std::string_view text, const std::filesystem::path& file);

}  // namespace commlens
