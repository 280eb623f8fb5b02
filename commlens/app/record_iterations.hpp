#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace commlens {

/// The part of a rank's calls that repeats: `repeats` times `period` calls, from call `start` on.
struct RepeatingPart {
  std::size_t start = 0;
  std::size_t period = 0;
  std::size_t repeats = 0;
  friend bool operator==(const RepeatingPart&, const RepeatingPart&) = default;
};

/// The shortest period with which the calls repeat up to the end, except for a few last calls: at least three
/// times, and over at least half of the calls. `calls` holds the op of each call in issue order.
std::optional<RepeatingPart> repeating_part(std::span<const std::uint32_t> calls);

/// Makes the number of repeats equal on all ranks of a job: that of the rank with the fewest; if another rank
/// has a multiple of it, several of its periods become one. Empty if a rank does not repeat or the numbers do
/// not fit.
std::vector<RepeatingPart> common_parts(const std::vector<std::optional<RepeatingPart>>& ranks);

/// Writes the iteration of each call into the records of a recording whose program did not mark iterations:
/// found by common_parts, else unknown. Returns how iterations are known, for people. Throws SystemError.
std::string settle_iterations(const std::filesystem::path& directory);

}  // namespace commlens
