#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "commlens/comm/event.hpp"

namespace commlens {

/// Calls of kind `other`, by the name they had.
struct UnclassifiedCalls {
  NameId name{};
  std::int64_t calls = 0;  // all ranks
};

/// What of a trace can be counted on. `unclassified` and `without_*` are of the calls that were summarised,
/// all ranks together; the rest is of the whole trace, whatever was selected.
struct Coverage {
  std::vector<UnclassifiedCalls> unclassified;  // most calls first
  std::int64_t without_bytes = 0;               // message of 0 bytes, barriers not counted
  std::int64_t without_times = 0;
  std::int64_t without_iteration = 0;           // of k_unknown_iteration
  std::int64_t unfinished = 0;                  // began and never ended; skipped everywhere else
  std::int64_t dropped = 0;                     // made, but not recorded
  std::map<std::string, std::int64_t> skipped;  // records skipped, by reason; holds the two above as well
  std::map<std::string, std::int64_t> assumed;  // what a reader filled in, by reason
  bool averaged_times = false;                  // as in Provenance: nothing is told of single calls
};

}  // namespace commlens
