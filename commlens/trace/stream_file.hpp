#pragma once
#include <cstdint>
#include <filesystem>
#include <vector>

#include "commlens/base/result.hpp"
#include "commlens/trace/manifest.hpp"
#include "commlens/trace/mapped_file.hpp"
#include "commlens/trace/stream_layout.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens {

/// Writes the records of `stream`, row `index` of the manifest (docs/formats/trace.md). Throws SystemError.
void write_stream_file(const RankStream& stream, std::uint32_t index, const std::filesystem::path& file);

/// What the header of a recorder's file says.
struct StreamUse {
  std::int64_t records = 0;
  std::int64_t dropped = 0;  // calls that were not recorded
};

/// A stream's file and what its header said when it was opened. What a recorder adds later is not seen, so
/// tables that are read after the opening have every row that its records need.
class StreamFile {
 public:
  /// Fails, naming the file, when it cannot be read or its header is none of `entry`.
  static Result<StreamFile> open(const std::filesystem::path& path, const StreamEntry& entry);

  StreamUse use() const;

  /// Reads the records that are in use and checks each against the tables, whose rows `ops` gives. What is
  /// left out is counted in `skipped` of the provenance: a torn last record, records that the header or the
  /// manifest promises and the file lacks, calls that never finished or were not recorded, and times that
  /// other calls of the stream do not have.
  Result<RankStream> read(const std::vector<OpId>& ops, Provenance& provenance) const;

 private:
  StreamFile(std::filesystem::path path, StreamEntry entry, MappedFile mapped, const StreamHeader& header);

  std::filesystem::path path_;
  StreamEntry entry_;
  MappedFile mapped_;
  StreamHeader header_;
};

}  // namespace commlens
