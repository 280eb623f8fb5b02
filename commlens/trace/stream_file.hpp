#pragma once
#include <cstdint>
#include <filesystem>
#include <vector>

#include "commlens/base/result.hpp"
#include "commlens/trace/manifest.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens {

/// Writes the records of `stream`, row `index` of the manifest (docs/formats/trace.md). Throws SystemError.
void write_stream_file(const RankStream& stream, std::uint32_t index, const std::filesystem::path& file);

/// Reads the records of `entry` that are in use and checks each against the tables, whose rows `ops` gives.
/// What is left out is counted in `skipped` of the provenance: a torn last record, records that the header or
/// the manifest promises and the file lacks, calls that never finished or were not recorded, and times that
/// other calls of the stream do not have.
Result<RankStream> read_stream_file(const std::filesystem::path& file, const StreamEntry& entry,
                                    const std::vector<OpId>& ops, Provenance& provenance);

/// What the header of a recorder's file says.
struct StreamUse {
  std::int64_t records = 0;
  std::int64_t dropped = 0;  // calls that were not recorded
};
Result<StreamUse> read_stream_use(const std::filesystem::path& file, const StreamEntry& entry);

}  // namespace commlens
