#include "commlens/formats/otf2/events.hpp"

#include <algorithm>
#include <utility>

namespace commlens::formats::otf2 {
namespace {

bool is_exchange(const std::vector<TimelineSlice>& slices, const std::vector<Otf2Function>& functions,
                 std::size_t row) {
  return row + 1 < slices.size() && functions[row].exchange != 0 &&
         functions[row].exchange == functions[row + 1].exchange &&
         slices[row].started == slices[row + 1].started && slices[row].finished == slices[row + 1].finished;
}

}  // namespace

std::vector<bool> otf2_requests(const std::vector<TimelineSlice>& slices,
                                const std::vector<Otf2Function>& functions) {
  std::vector<bool> requests(slices.size(), false);
  for (std::size_t row = 0; row < slices.size(); ++row) {
    const std::size_t last = row + (is_exchange(slices, functions, row) ? 1 : 0);
    const bool is_left = last + 1 < slices.size() && slices[last].finished > slices[last + 1].started;
    for (; row < last; ++row) {
      requests[row] = is_left || functions[row].returns_at_once;
    }
    requests[row] = is_left || functions[row].returns_at_once;
  }
  return requests;
}

std::vector<Otf2Event> otf2_events(const std::vector<TimelineSlice>& slices,
                                   const std::vector<Otf2Function>& functions) {
  using Kind = Otf2Event::Kind;
  const std::vector<bool> requests = otf2_requests(slices, functions);
  std::vector<Otf2Event> events;
  events.reserve(slices.size() * 4);
  for (std::uint32_t row = 0; row < slices.size(); ++row) {
    const auto [begin, end] = std::pair(slices[row].started, slices[row].finished);
    events.push_back({requests[row] ? Kind::post : Kind::enter, begin, row});
    if (requests[row]) {
      events.push_back({Kind::start, begin, row});
      events.push_back({Kind::leave, begin, row});
      events.push_back({Kind::complete, end, row});
      continue;
    }
    if (is_exchange(slices, functions, row)) {
      events.push_back({Kind::call, end, row});
      ++row;
    }
    events.push_back({Kind::call, end, row});
    events.push_back({Kind::leave, end, row});
  }
  std::stable_sort(events.begin(), events.end(),
                   [](const Otf2Event& a, const Otf2Event& b) { return a.time < b.time; });
  return events;
}

}  // namespace commlens::formats::otf2
