#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "commlens/trace/trace.hpp"

namespace commlens::formats {

/// One call, or one compute interval, of one rank as a viewer shows it. Times are nanoseconds after the
/// start of the timeline.
struct TimelineSlice {
  Rank rank;
  std::uint32_t stream = 0;  // row of Trace::streams
  std::uint32_t row = 0;     // of its events, or of its compute
  bool is_compute = false;
  std::uint64_t started = 0;
  std::uint64_t finished = 0;
  std::uint32_t track = 0;     // row of Timeline::tracks
  std::uint64_t arrow = 0;     // 1, 2, …: the message it sends or receives; 0: none, or none that is drawn
  std::uint64_t arrow_at = 0;  // when the arrow leaves or arrives, within the slice
};

/// One line of a rank: its computing, or its calls along one axis. What overlaps is on further lines.
struct TimelineTrack {
  Rank rank;
  std::string name;  // "computing", "tp", "tp 2"
};

struct Timeline {
  std::vector<TimelineSlice> slices;  // ascending by start
  std::vector<TimelineTrack> tracks;  // rank by rank
  bool has_times = true;              // else calls of a rank follow each other, 1 µs each
  std::int64_t origin_ns = 0;         // on the trace's clock, when it has times
  std::int64_t unmatched = 0;         // sends and receives whose other side is not there
  std::int64_t backward = 0;          // messages that arrive before they are sent: clocks differ
  std::int64_t compute_left_out = 0;  // compute intervals that no times of calls go with
};

/// Lays a trace out. The k-th send from one rank to another goes with the k-th receive there, among those of
/// one communicator, element type and size. Two slices of a track never overlap and never start together.
Timeline timeline_of(const Trace& trace, std::optional<Rank> only);

/// Calls and compute intervals that timeline_of would give, as a double: it may pass any integer.
double slices_of(const Trace& trace, std::optional<Rank> only);

}  // namespace commlens::formats
