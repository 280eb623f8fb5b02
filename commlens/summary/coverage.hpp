#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "commlens/comm/event.hpp"

namespace commlens {

/// Calls of kind `other`, by their original name.
struct UnclassifiedCalls {
  NameId name{};
  std::int64_t calls = 0;  // all ranks
};

/// The coverage of a summary. `unclassified` and `without_*` count summarised calls of all ranks; the other
/// members are of the whole trace, independent of the selection.
struct Coverage {
  std::vector<UnclassifiedCalls> unclassified;  // most calls first
  std::int64_t without_bytes = 0;               // message of 0 bytes, barriers not counted
  std::int64_t without_times = 0;
  std::int64_t without_iteration = 0;           // of k_unknown_iteration
  std::int64_t unfinished = 0;                  // began and never ended; not counted elsewhere
  std::int64_t dropped = 0;                     // made, but not recorded
  std::map<std::string, std::int64_t> skipped;  // records skipped, by reason; includes the two above
  std::map<std::string, std::int64_t> assumed;  // values that a reader assumed, by reason
  bool averaged_times = false;                  // as in Provenance: no times of single calls
};

}  // namespace commlens
