#include "commlens/app/repeated_iteration.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "commlens/app/record_iterations.hpp"

namespace commlens {
namespace {

std::optional<RepeatingPart> part_of(const std::vector<CommEvent>& events) {
  std::vector<std::uint32_t> ops;
  ops.reserve(events.size());
  for (const CommEvent& event : events) {
    ops.push_back(static_cast<std::uint32_t>(event.op));
  }
  return repeating_part(ops);
}

/// Whether the members of each group make as many calls on it, as they do in an iteration.
bool are_of_one_iteration(const Trace& trace) {
  std::map<GroupId, std::int64_t> calls_of_group;
  for (const RankStream& stream : trace.streams) {
    std::map<GroupId, std::int64_t> calls;
    for (const CommEvent& event : stream.events) {
      ++calls[trace.op(event.op).group];
    }
    for (const auto& [group, count] : calls) {
      if (calls_of_group.try_emplace(group, count).first->second != count) {
        return false;
      }
    }
  }
  return true;
}

}  // namespace

Result<Trace> repeated_iteration(Trace latest) {
  for (RankStream& stream : latest.streams) {
    const std::optional<RepeatingPart> part = part_of(stream.events);
    if (!part) {
      return failure(fmt::format("the program marks no iteration, and rank {} has repeated no calls yet",
                                 stream.ranks.first.value));
    }
    const auto last =
        stream.events.begin() + static_cast<std::ptrdiff_t>(part->start + part->repeats * part->period);
    stream.events.erase(last, stream.events.end());
    stream.events.erase(stream.events.begin(),
                        stream.events.end() - static_cast<std::ptrdiff_t>(part->period));
    for (CommEvent& event : stream.events) {
      event.iteration = k_repeated;
    }
  }
  if (!are_of_one_iteration(latest)) {
    return failure(
        "the program marks no iteration, and ranks repeat different numbers of calls in groups that they "
        "share");
  }
  return latest;
}

}  // namespace commlens
