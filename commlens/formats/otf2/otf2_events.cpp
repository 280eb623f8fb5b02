#include "commlens/formats/otf2/otf2_events.hpp"

#include <algorithm>
#include <utility>

namespace commlens {
namespace {

/// Whether each slice overlaps no other; touching is allowed.
std::vector<bool> slices_alone(const std::vector<TimelineSlice>& slices) {
  std::vector<bool> is_alone(slices.size(), true);
  std::uint64_t busy_until = 0;
  for (std::size_t row = 0; row < slices.size(); ++row) {
    const bool follows = slices[row].started >= busy_until;
    const bool precedes = row + 1 == slices.size() || slices[row].finished <= slices[row + 1].started;
    is_alone[row] = follows && precedes;
    busy_until = std::max(busy_until, slices[row].finished);
  }
  return is_alone;
}

}  // namespace

std::vector<Otf2Event> otf2_events(const std::vector<TimelineSlice>& slices) {
  using Kind = Otf2Event::Kind;
  const std::vector<bool> is_alone = slices_alone(slices);
  std::vector<Otf2Event> events;
  events.reserve(slices.size() * 4);
  for (std::uint32_t row = 0; row < slices.size(); ++row) {
    const auto [begin, end] = std::pair(slices[row].started, slices[row].finished);
    events.push_back({is_alone[row] ? Kind::enter : Kind::post, begin, row});
    if (is_alone[row]) {
      events.push_back({Kind::call, end, row});
      events.push_back({Kind::leave, end, row});
    } else {
      events.push_back({Kind::start, begin, row});
      events.push_back({Kind::leave, begin, row});
      events.push_back({Kind::complete, end, row});
    }
  }
  std::stable_sort(events.begin(), events.end(),
                   [](const Otf2Event& a, const Otf2Event& b) { return a.time < b.time; });
  return events;
}

}  // namespace commlens
