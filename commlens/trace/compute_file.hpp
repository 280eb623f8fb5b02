#pragma once
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "commlens/base/result.hpp"
#include "commlens/trace/manifest.hpp"
#include "commlens/trace/mapped_file.hpp"
#include "commlens/trace/stream_file.hpp"
#include "commlens/trace/stream_layout.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens {

/// The header of the file of compute intervals of the ranks of a stream, row `index` of the manifest.
StreamHeader compute_header(RankRange ranks, std::uint32_t index, std::uint64_t records);

/// Writes the compute intervals of `stream` (docs/formats/trace.md). Throws SystemError.
void write_compute_file(const RankStream& stream, std::uint32_t index, const std::filesystem::path& file);

/// A file of compute intervals that is open.
class ComputeFile {
 public:
  /// Of a stream in `directory`. std::nullopt if the manifest names none, or when a recorded rank has none
  /// although the manifest names it, which is counted in `skipped`, and so is what the file promises and
  /// lacks. Fails, naming the file, when it is no such file.
  static Result<std::optional<ComputeFile>> open(const std::filesystem::path& directory,
                                                 const StreamEntry& entry, Provenance& provenance);

  /// Records, lost ones with them.
  std::size_t size() const { return size_; }
  /// Appends the intervals of at most `count` records, from row `first` on, `shift` added to their times.
  /// Returns how many records gave none, since they are not as they were written.
  std::size_t read(std::size_t first, std::size_t count, const TimeShift& shift,
                   std::vector<ComputeInterval>& stretches) const;
  /// Gives back the memory that the file took so far; it is read again when needed.
  void forget() const { mapped_.forget(mapped_.bytes()); }

  /// Gives back the mapping until map_again(), which throws SystemError where the file is not what it was; in
  /// between nothing can be read.
  void unmap() { mapped_.unmap(); }
  void map_again() { mapped_.map_again(); }

 private:
  ComputeFile(MappedFile mapped, std::uint32_t version, std::size_t size);

  MappedFile mapped_;
  std::uint32_t version_;
  std::size_t size_;
};

/// Reads the compute intervals of a stream in `directory`, ascending by start, `shift` added to their times;
/// every field is checked. What the file promises and lacks, records that are not as they were written, and
/// intervals that were not recorded are counted in `skipped`, and so is a recorded rank that has no file
/// although the manifest names one. Empty when the manifest names none. Fails, naming the file, when it is no
/// such file.
Result<std::vector<ComputeInterval>> read_compute(const std::filesystem::path& directory,
                                                  const StreamEntry& entry, const TimeShift& shift,
                                                  Provenance& provenance);

}  // namespace commlens
