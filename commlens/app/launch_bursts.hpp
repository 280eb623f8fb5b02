#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace commlens {

/// How far apart launches begin that are independent.
constexpr std::chrono::milliseconds k_least_launch_distance{250};

/// Launches of a job, by when each began (ns since 1970; absent: not known), as the positions of those of one
/// burst together, in the order in which they began: launches that begin within a quarter of a second of
/// another share one state of the machine (which other processes run, at which clock rate), and are no
/// independent measurements. A launch whose begin is not known is a burst of its own.
std::vector<std::vector<std::size_t>> launch_bursts(std::span<const std::optional<std::int64_t>> began_ns);

}  // namespace commlens
