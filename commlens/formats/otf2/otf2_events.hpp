#pragma once
#include <cstdint>
#include <vector>

#include "commlens/formats/exporters/perfetto_timeline.hpp"

namespace commlens {

/// One event of a rank in an archive, in the order in which it is written.
struct Otf2Event {
  enum class Kind : std::uint8_t {
    enter,     // a function that lasts as long as the call
    call,      // made and over
    post,      // a function that returns at once
    start,     // of the request
    complete,  // of the request
    leave,
  };
  Kind kind = Kind::enter;
  std::uint64_t time = 0;   // nanoseconds
  std::uint32_t slice = 0;  // row of the slices given
};

/// The events of one rank's calls, ascending by time and properly nested. A call that overlaps no other is a
/// function that lasts as long as it; one that does is a function that returns at once and a request that
/// completes when the call does. `slices` are calls of one rank, ascending by start.
std::vector<Otf2Event> otf2_events(const std::vector<TimelineSlice>& slices);

}  // namespace commlens
