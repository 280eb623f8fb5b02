#include <algorithm>
#include <string>
#include <system_error>

#include <fmt/format.h>

#include "commlens/base/file.hpp"
#include "commlens/trace/growing_file.hpp"
#include "commlens/trace/manifest.hpp"
#include "commlens/trace/rank_tables.hpp"
#include "commlens/trace/recorder.hpp"
#include "commlens/trace/stream_file.hpp"

namespace commlens {
namespace {

namespace fs = std::filesystem;

/// Removes the room after the last record that a killed rank has left.
void cut(const fs::path& file, std::uint64_t size) {
  std::error_code ignored;  // a file that cannot be cut is only longer than it must be
  if (!is_being_filled(file) && fs::file_size(file, ignored) > size) {
    fs::resize_file(file, size, ignored);
  }
}

/// Writes into the manifest what one rank's files say. False when the rank never opened them.
bool add_rank(const fs::path& directory, StreamEntry& entry, RecorderCost& cost) {
  Trace rows;  // only the clock and the last line are of interest
  const Result<RankTables> rank = read_rank_tables(directory / entry.tables, rows);
  const Result<StreamFile> stream = StreamFile::open(directory / entry.file, entry);
  if (!rank || !stream) {
    return false;
  }
  if (is_being_filled(directory / entry.file)) {
    entry.events.reset();  // there will be more of them
    return true;
  }
  entry.events = stream->is_ring() ? stream->use().written : stream->use().records;
  entry.clock = alignment_of(rank->aligned);
  if (!rank->closing) {
    cut(directory / entry.file, stream->bytes_in_use());
  }
  cost.clock = rank->rank ? rank->clock.source : cost.clock;
  cost.clock_error_ppb = std::max(cost.clock_error_ppb, rank->clock.rate_error_ppb);
  cost.dropped += stream->use().dropped;
  if (const std::optional<RankClosing>& closing = rank->closing) {
    cost.cost_per_call = std::max(cost.cost_per_call, closing->cost_per_call);
    for (const std::string_view reason : {k_skipped_tables_full, k_skipped_no_memory}) {
      const auto lost = closing->skipped.find(std::string(reason));
      cost.dropped += lost == closing->skipped.end() ? 0 : lost->second;
    }
  }
  return true;
}

}  // namespace

void finish_recording(const fs::path& directory, std::string_view note) {
  Result<Manifest> manifest = read_manifest(directory / k_manifest_name);
  if (!manifest) {
    throw SystemError(fmt::format("cannot finish the recording: {}", manifest.error().message));
  }
  if (!note.empty()) {
    std::string& description = manifest->tables.provenance.description;
    description += fmt::format("{}{}", description.empty() ? "" : " · ", note);
  }
  RecorderCost cost;
  bool has_ranks = false;
  for (StreamEntry& entry : manifest->streams) {
    has_ranks |= add_rank(directory, entry, cost);
  }
  if (has_ranks) {
    manifest->tables.provenance.recorder = cost;
  }
  try {
    write_file_atomically(directory / k_manifest_name, manifest_text(manifest->tables, manifest->streams));
  } catch (const SystemError&) {
    // The disk is full. The ranks' own files say the same, so nothing is lost.
  }
}

}  // namespace commlens
