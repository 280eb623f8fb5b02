#pragma once
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <vector>

#include "commlens/base/result.hpp"
#include "commlens/trace/manifest.hpp"
#include "commlens/trace/stream_file.hpp"
#include "commlens/trace/stream_layout.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens {

/// The header of the file of compute stretches of the ranks of a stream, row `index` of the manifest.
StreamHeader compute_header(RankRange ranks, std::uint32_t index, std::uint64_t records);

/// Writes the compute stretches of `stream` (docs/formats/trace.md). Throws SystemError.
void write_compute_file(const RankStream& stream, std::uint32_t index, const std::filesystem::path& file);

/// Reads the compute stretches of a stream in `folder`, ascending by start, `shift` added to their times;
/// every field is checked. What the file promises and lacks, records that are not as they were written, and
/// stretches that were not recorded are counted in `skipped`, and so is a recorded rank that has no file
/// although the manifest names one. Empty when the manifest names none. Fails, naming the file, when it is no
/// such file.
Result<std::vector<ComputeInterval>> read_compute(const std::filesystem::path& folder,
                                                  const StreamEntry& entry, const TimeShift& shift,
                                                  Provenance& provenance);

}  // namespace commlens
