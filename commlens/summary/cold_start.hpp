#pragma once
#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "commlens/base/units.hpp"
#include "commlens/comm/event.hpp"
#include "commlens/comm/group.hpp"
#include "commlens/summary/time_stats.hpp"

namespace commlens {

/// Calls of one op along one axis in the cold iteration and in the warm ones, summed over all ranks.
struct ColdRow {
  CommKind kind = CommKind::other;
  NameId name{};  // kind `other` only
  Axis axis = Axis::unknown;
  std::int64_t group_size = 0;
  std::int64_t cold_calls = 0;
  std::int64_t warm_calls = 0;  // of all warm iterations together
  Bytes cold_message;
  Bytes warm_message;
  std::optional<TimeStats> cold;  // absent without times
  std::optional<TimeStats> warm;
};

/// First calls of ranks on their groups (a send and its recv: on their pair), which make connections, of one
/// op along one axis.
struct FirstCallRow {
  CommKind kind = CommKind::other;
  NameId name{};
  Axis axis = Axis::unknown;
  std::int64_t group_size = 0;
  std::int64_t calls = 0;                    // first calls: pairs of a rank and a group
  std::optional<TimeStats> time;             // of all of them that have a time
  std::int64_t compared = 0;                 // those with later calls of the same op, sizes and group
  std::chrono::nanoseconds compared_time{};  // duration of these …
  std::chrono::nanoseconds later_time{};     // … and their duration at the mean of the later ones
};

/// The cost of starting. A rank's cold iteration is the first one (>= 0) that it issues; all later ones are
/// warm. Initialisation (-1) and calls of unknown iterations are neither.
struct ColdStart {
  std::optional<Iteration> cold_iteration;  // absent if there is none, or it differs between ranks
  std::int64_t cold_ranks = 0;              // ranks that have one
  std::int64_t warm_iterations = 0;         // distinct
  std::vector<ColdRow> rows;                // most cold time first, then most cold message bytes
  std::vector<FirstCallRow> first_calls;    // largest excess (compared_time - later_time) first
};

}  // namespace commlens
