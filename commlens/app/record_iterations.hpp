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

/// The shortest period with which the calls repeat up to the end, a few last calls excepted: at least three
/// times, and over at least half of them. `calls` holds the op of each call in issue order.
std::optional<RepeatingPart> repeating_part(std::span<const std::uint32_t> calls);

/// Brings the ranks of a job to the same number of repeats: that of the rank with the fewest; where another
/// has a multiple of it, several of its periods are one. Empty when a rank does not repeat or the numbers do
/// not fit.
std::vector<RepeatingPart> common_parts(const std::vector<std::optional<RepeatingPart>>& ranks);

/// Writes into the records of a recording which iteration each call belongs to, where its program did not
/// say: found by common_parts, else unknown. Returns how it is known, for people. Throws SystemError.
std::string settle_iterations(const std::filesystem::path& folder);

}  // namespace commlens
