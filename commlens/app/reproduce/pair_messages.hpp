#pragma once
#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "commlens/base/rank.hpp"
#include "commlens/base/units.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens::study {

/// How long one call, or the median of several, took.
struct CallTime {
  /// Of a receive from its issue to its end; of a send, which a rank may issue and wait for later, as long as
  /// it occupies the rank.
  std::chrono::nanoseconds duration{};
  std::optional<std::chrono::nanoseconds> moving;  // of a receive: from when its send had been issued, too
};

/// Calls of one op of an ordered pair of ranks: the first, and the median of the later ones.
struct PairCalls {
  CommKind op = CommKind::recv;  // or send
  Rank source;
  Rank destination;
  Bytes message;  // of the first
  CallTime first;
  std::int64_t later_calls = 0;
  CallTime later;  // of no calls: 0
};

/// Receives of all pairs of a recording, by source and destination, then their sends. Both are matched in
/// order; pairs without times, or with sends that no receive answers, are left out.
std::vector<PairCalls> pair_calls(const Trace& trace);

}  // namespace commlens::study
