#include "commlens/summary/iteration_parts.hpp"

#include <algorithm>
#include <map>

#include "commlens/base/check.hpp"

namespace commlens {
namespace {

Interval occupied_by(const ComputeInterval& compute) {
  return {held(compute.started), held(compute.finished)};
}

void extend(Interval& span, const Interval& by) {
  span.started = std::min(span.started, by.started);
  span.finished = std::max(span.finished, by.finished);
}

/// The part of a set within an interval.
Intervals within(const Intervals& set, const Interval& bounds) {
  const auto first = std::partition_point(
      set.begin(), set.end(), [&](const Interval& interval) { return interval.finished <= bounds.started; });
  const auto end = std::partition_point(
      first, set.end(), [&](const Interval& interval) { return interval.started < bounds.finished; });
  Intervals result(first, end);
  if (!result.empty()) {
    result.front().started = std::max(result.front().started, bounds.started);
    result.back().finished = std::min(result.back().finished, bounds.finished);
  }
  return result;
}

/// The parts of a stream while they are collected; consecutive calls are mostly of one iteration.
class Parts {
 public:
  IterationPart& of(Iteration iteration) {
    if (previous_ == nullptr || previous_->iteration != iteration) {
      const auto [found, is_new] = parts_.try_emplace(iteration);
      previous_ = &found->second;
      previous_->iteration = iteration;
      if (is_new) {
        previous_->span = {k_furthest_time, -k_furthest_time};
      }
    }
    return *previous_;
  }

  std::vector<IterationPart> take(const Intervals& compute) {
    std::vector<IterationPart> result;
    for (auto& [iteration, part] : parts_) {
      part.compute = within(compute, part.span);
      result.push_back(std::move(part));
    }
    return result;
  }

 private:
  std::map<Iteration, IterationPart> parts_;
  IterationPart* previous_ = nullptr;
};

}  // namespace

std::vector<IterationPart> iteration_parts(const RankStream& stream, const TimeSelection& selection) {
  if (stream.times.size() != stream.events.size()) {
    return {};
  }
  COMMLENS_CHECK(stream.events.size() < UINT32_MAX,
                 "rows have 32 bits: such a trace would not fit in memory");
  Parts parts;
  for (std::size_t row = 0; row < stream.events.size(); ++row) {
    const Iteration iteration = stream.events[row].iteration;
    if (selects(selection, iteration)) {
      IterationPart& part = parts.of(iteration);
      part.calls.push_back(static_cast<std::uint32_t>(row));
      extend(part.span, occupied(stream.times[row]));
    }
  }
  Intervals compute;
  for (const ComputeInterval& interval : stream.compute) {
    compute.push_back(occupied_by(interval));
    if (selects(selection, interval.iteration)) {
      extend(parts.of(interval.iteration).span, compute.back());
    }
  }
  return parts.take(united(std::move(compute)));
}

}  // namespace commlens
