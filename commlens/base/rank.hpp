#pragma once
#include <compare>
#include <cstdint>

namespace commlens {

/// A process of the whole job, 0-based.
struct Rank {
  std::int64_t value = 0;
  friend auto operator<=>(Rank, Rank) = default;
};

/// A position within a group, 0-based, in the group's order.
struct GroupRank {
  std::int64_t value = 0;
  friend auto operator<=>(GroupRank, GroupRank) = default;
};

/// Optimizer steps: -1 is initialisation, then 0, 1, …
using Iteration = std::int32_t;
constexpr Iteration k_init_iteration = -1;

}  // namespace commlens
