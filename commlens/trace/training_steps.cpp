#include "commlens/trace/training_steps.hpp"

#include <algorithm>

namespace commlens {

std::vector<Iteration> training_iterations(const Trace& trace) {
  std::vector<Iteration> all = trace.iterations();
  all.erase(all.begin(), std::upper_bound(all.begin(), all.end(), k_init_iteration));
  return all;
}

Iteration cold_iteration(const Trace& trace) {
  const std::vector<Iteration> iterations = training_iterations(trace);
  return iterations.empty() ? INT32_MAX : iterations.front();
}

std::chrono::nanoseconds time_between(std::chrono::nanoseconds started, std::chrono::nanoseconds finished) {
  std::int64_t length = 0;
  if (finished <= started) {
    return {};
  }
  const bool is_beyond = __builtin_sub_overflow(finished.count(), started.count(), &length);
  return std::chrono::nanoseconds(is_beyond ? INT64_MAX : length);
}

std::vector<Step> steps_after(Iteration cold, const RankStream& stream) {
  std::vector<Step> steps;
  Iteration current = k_unknown_iteration;
  std::chrono::nanoseconds began{};
  for (std::size_t at = 0; at < stream.times.size(); ++at) {
    const Iteration iteration = stream.events[at].iteration;
    if (iteration == current) {
      continue;
    }
    const std::chrono::nanoseconds now = stream.times[at].started;
    if (current > cold && iteration > current && iteration - 1 == current) {
      steps.push_back({current, time_between(began, now)});
    }
    current = iteration;
    began = now;
  }
  return steps;
}

}  // namespace commlens
