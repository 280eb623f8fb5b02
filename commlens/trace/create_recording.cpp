#include <vector>

#include <fmt/format.h>

#include "commlens/base/file.hpp"
#include "commlens/trace/manifest.hpp"
#include "commlens/trace/recorder.hpp"
#include "commlens/trace/trace_directory.hpp"

// Apart from recording.cpp: capture libraries make recordings and read none.
namespace commlens {

std::vector<StreamEntry> recording_streams(const std::vector<Rank>& ranks) {
  std::vector<StreamEntry> streams;
  for (const Rank rank : ranks) {
    streams.push_back({.file = fmt::format("rank-{}.bin", rank.value),
                       .ranks = {rank, rank},
                       .events = {},
                       .tables = fmt::format("rank-{}.jsonl", rank.value),
                       .clock = {},
                       .compute = {}});
  }
  return streams;
}

void write_recording_manifest(const std::filesystem::path& directory, const RecordingInfo& info) {
  Trace trace;
  trace.provenance.source = info.is_replay ? Source::replayed : Source::recorded;
  trace.provenance.producer = info.producer;
  trace.provenance.description = info.description;
  trace.provenance.framework = info.framework;
  trace.provenance.progress = info.progress;
  std::vector<Rank> ranks;
  for (Rank rank{0}; rank.value < info.ranks; ++rank.value) {
    ranks.push_back(rank);
  }
  std::vector<StreamEntry> streams = recording_streams(ranks);
  for (StreamEntry& stream : streams) {
    stream.compute = info.compute ? fmt::format("rank-{}.compute.bin", stream.ranks.first.value) : "";
    stream.ring = info.ring_records;
  }
  write_file_atomically(directory / k_manifest_name, manifest_text(trace, streams));
}

void create_recording(const std::filesystem::path& directory, const RecordingInfo& info) {
  replace_trace_directory(directory,
                          [&](const std::filesystem::path& path) { write_recording_manifest(path, info); });
}

std::filesystem::path claim_recording(const std::filesystem::path& directory, const RecordingInfo& info) {
  return claim_trace_directory(
      directory, [&](const std::filesystem::path& path) { write_recording_manifest(path, info); });
}

}  // namespace commlens
