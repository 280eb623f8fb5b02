#include "commlens/formats/io/schedule_order.hpp"

#include <algorithm>
#include <chrono>
#include <numeric>

#include "commlens/base/check.hpp"

namespace commlens::formats {

CallOrder::CallOrder(const RankStream& stream) : calls_(static_cast<std::uint32_t>(stream.events.size())) {
  COMMLENS_CHECK(stream.events.size() < k_never, "a stream has fewer calls than positions can count");
  if (stream.times.empty()) {
    return;
  }
  const std::vector<Times>& times = stream.times;
  const auto starts_earlier = [](const Times& a, const Times& b) { return a.started < b.started; };
  if (!std::is_sorted(times.begin(), times.end(), starts_earlier)) {
    rows_.resize(calls_);
    std::iota(rows_.begin(), rows_.end(), 0U);
    std::stable_sort(rows_.begin(), rows_.end(),
                     [&](std::uint32_t a, std::uint32_t b) { return starts_earlier(times[a], times[b]); });
  }
  std::vector<std::chrono::nanoseconds> starts(calls_);
  for (std::uint32_t position = 0; position < calls_; ++position) {
    starts[position] = times[row(position)].started;
  }
  waited_at_.resize(calls_);
  for (std::uint32_t position = 0; position < calls_; ++position) {
    const std::chrono::nanoseconds finished = times[row(position)].finished;
    const auto after = starts.begin() + position + 1;
    const auto found = std::lower_bound(after, starts.end(), finished);
    waited_at_[position] =
        found == starts.end() ? k_never : static_cast<std::uint32_t>(found - starts.begin());
  }
}

}  // namespace commlens::formats
