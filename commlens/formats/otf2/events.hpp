#pragma once
#include <cstdint>
#include <vector>

#include "commlens/formats/io/timeline.hpp"

namespace commlens::formats::otf2 {

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

/// What of a call its events depend on.
struct Otf2Function {
  bool returns_at_once = false;  // by its name
  std::uint32_t exchange = 0;    // functions that send and receive in one: the same number, else 0
};

/// Whether each call has a request: its function returns at once, or another call starts before it is over,
/// which one thread can do only after a function that has returned.
std::vector<bool> otf2_requests(const std::vector<TimelineSlice>& slices,
                                const std::vector<Otf2Function>& functions);

/// The events of one rank's calls, ascending by time and properly nested. A call without a request is a
/// function that lasts as long as it; two of one exchange that begin and end together are one function. One
/// with a request is a function that returns at once and a request that completes when the call does.
/// `slices` are calls of one rank, ascending by start.
std::vector<Otf2Event> otf2_events(const std::vector<TimelineSlice>& slices,
                                   const std::vector<Otf2Function>& functions);

}  // namespace commlens::formats::otf2
