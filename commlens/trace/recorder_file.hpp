#pragma once
#include <cstdint>
#include <filesystem>

#include "commlens/base/rank.hpp"
#include "commlens/trace/growing_file.hpp"

namespace commlens {

/// Makes the file of the calls of `rank`: one that grows, or (`ring_records` > 0) a ring. Throws SystemError.
GrowingFile recorder_file(const std::filesystem::path& path, Rank rank, std::int64_t ring_records);

}  // namespace commlens
