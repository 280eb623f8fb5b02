#pragma once
#include <cstdint>
#include <filesystem>

#include "commlens/base/result.hpp"
#include "commlens/trace/manifest.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens {

/// Writes the records of `stream`, row `index` of the manifest (docs/formats/trace.md). Throws SystemError.
void write_stream_file(const RankStream& stream, std::uint32_t index, const std::filesystem::path& file);

/// Reads the records of `entry` and checks each against the tables. A torn last record, records that the
/// manifest promises and the file lacks, and times that other calls of the stream do not have are counted in
/// `skipped` of the provenance.
Result<RankStream> read_stream_file(const std::filesystem::path& file, const StreamEntry& entry,
                                    const Manifest& manifest, Provenance& provenance);

}  // namespace commlens
