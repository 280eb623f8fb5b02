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

/// How many calls the last iteration of a rank has, of those that it repeats; 0: it has repeated too few.
std::size_t calls_of_iteration(const RepeatingPart& part, std::size_t predicted) {
  constexpr std::size_t k_enough = 3;
  const std::size_t length = std::max(predicted, part.period);
  if (part.repeats * part.period < k_enough * length) {
    return 0;
  }
  const std::size_t times = (length + part.period / 2) / part.period;
  return times * part.period;
}

}  // namespace

Result<Trace> repeated_iteration(Trace latest, const Trace& predicted) {
  for (RankStream& stream : latest.streams) {
    const Rank rank = stream.ranks.first;
    const RankStream* const said = predicted.stream_of(rank);
    const std::optional<RepeatingPart> part = part_of(stream.events);
    const std::size_t calls = part ? calls_of_iteration(*part, said == nullptr ? 0 : said->events.size()) : 0;
    if (calls == 0) {
      return failure(fmt::format(
          "the program marks no iteration, and rank {} has not repeated its calls for three iterations yet",
          rank.value));
    }
    const auto last =
        stream.events.begin() + static_cast<std::ptrdiff_t>(part->start + part->repeats * part->period);
    stream.events.erase(last, stream.events.end());
    stream.events.erase(stream.events.begin(), stream.events.end() - static_cast<std::ptrdiff_t>(calls));
  }
  if (!are_of_one_iteration(latest)) {
    return failure(
        "the program marks no iteration, and ranks repeat different numbers of calls in groups that they "
        "share");
  }
  return latest;
}

}  // namespace commlens
