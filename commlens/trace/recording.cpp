#include <algorithm>

#include <fmt/format.h>

#include "commlens/base/file.hpp"
#include "commlens/trace/manifest.hpp"
#include "commlens/trace/rank_tables.hpp"
#include "commlens/trace/recorder.hpp"
#include "commlens/trace/stream_file.hpp"
#include "commlens/trace/trace_folder.hpp"

namespace commlens {
namespace {

namespace fs = std::filesystem;

/// Writes into the manifest what one rank's files say. False when the rank never opened them.
bool add_rank(const fs::path& folder, StreamEntry& entry, RecorderCost& cost) {
  Trace rows;  // only the clock and the last line are of interest
  const Result<RankTables> rank = read_rank_tables(folder / entry.tables, rows);
  const Result<StreamFile> stream = StreamFile::open(folder / entry.file, entry);
  if (!rank || !stream) {
    return false;
  }
  entry.events = stream->use().records;
  cost.clock = rank->clock.source;
  cost.clock_error_ppb = std::max(cost.clock_error_ppb, rank->clock.rate_error_ppb);
  cost.dropped += stream->use().dropped;
  if (rank->closing) {
    cost.cost_per_call = std::max(cost.cost_per_call, rank->closing->cost_per_call);
  }
  return true;
}

}  // namespace

void create_recording(const fs::path& folder, const RecordingInfo& info) {
  Trace trace;
  trace.provenance.source = Source::recorded;
  trace.provenance.producer = info.producer;
  trace.provenance.description = info.description;
  trace.provenance.framework = info.framework;
  std::vector<StreamEntry> streams;
  for (Rank rank{0}; rank.value < info.ranks; ++rank.value) {
    streams.push_back({.file = fmt::format("rank-{}.bin", rank.value),
                       .ranks = {rank, rank},
                       .events = {},
                       .tables = fmt::format("rank-{}.jsonl", rank.value),
                       .compute = info.compute ? fmt::format("rank-{}.compute.bin", rank.value) : ""});
  }
  replace_trace_folder(folder, [&](const fs::path& path) {
    write_file_atomically(path / k_manifest_name, manifest_text(trace, streams));
  });
}

void finish_recording(const fs::path& folder) {
  Result<Manifest> manifest = read_manifest(folder / k_manifest_name);
  if (!manifest) {
    throw SystemError(fmt::format("cannot finish the recording: {}", manifest.error().message));
  }
  RecorderCost cost;
  bool has_ranks = false;
  for (StreamEntry& entry : manifest->streams) {
    has_ranks |= add_rank(folder, entry, cost);
  }
  if (has_ranks) {
    manifest->tables.provenance.recorder = cost;
  }
  try {
    write_file_atomically(folder / k_manifest_name, manifest_text(manifest->tables, manifest->streams));
  } catch (const SystemError&) {
    // The disk is full. The ranks' own files say the same, so nothing is lost.
  }
}

}  // namespace commlens
