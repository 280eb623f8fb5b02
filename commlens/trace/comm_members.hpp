#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "commlens/base/rank.hpp"

namespace commlens {

/// NCCL tells a process its rank in a communicator and no more; which ranks of the job the others are, its
/// processes learn from small files in the directory of the recording (docs/formats/trace.md). In a rank's
/// tables, numbers from this one on stand for members that it did not know yet; other ranks mean others by
/// them.
constexpr Rank k_first_stranger{std::int64_t{1} << 22};

/// The file of a communicator: for each of its members the rank of the job plus 1, 8 bytes each; 0: not
/// known.
std::filesystem::path members_file(const std::filesystem::path& directory, std::uint64_t communicator);

/// The members that the file has by now, by their rank in the communicator; up to `most`.
std::vector<std::optional<Rank>> published_members(const std::filesystem::path& directory,
                                                   std::uint64_t communicator, std::size_t most);

}  // namespace commlens
