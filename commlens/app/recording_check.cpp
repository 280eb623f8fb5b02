#include "commlens/app/recording_check.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace commlens {
namespace {

/// Calls of all ranks but barriers, of training iterations.
std::int64_t calls_of(const Trace& trace) {
  std::int64_t calls = 0;
  for (const RankStream& stream : trace.streams) {
    const auto counted =
        std::count_if(stream.events.begin(), stream.events.end(), [&](const CommEvent& event) {
          return event.iteration >= 0 && trace.op(event.op).kind != CommKind::barrier;
        });
    calls += counted * stream.ranks.count();
  }
  return calls;
}

}  // namespace

RecordingCheck check_recording(const Plan& plan, const Trace& recorded, std::int64_t first,
                               std::int64_t iterations) {
  std::vector<Iteration> wanted;
  for (std::int64_t iteration = 0; iteration < iterations; ++iteration) {
    wanted.push_back(static_cast<Iteration>(iteration));
  }
  Trace predicted = plan.trace_of(wanted);
  for (RankStream& stream : predicted.streams) {
    for (CommEvent& event : stream.events) {
      event.iteration += static_cast<Iteration>(first);
    }
  }
  RecordingCheck check;
  check.calls = std::max(calls_of(predicted), calls_of(recorded));
  if (check.calls == 0) {
    return check;
  }
  CompareOptions options = options_by_rules();
  options.iterations = {0, INT32_MAX};
  Result<Comparison> comparison = compare(predicted, recorded, options);
  if (!comparison) {
    return check;  // no common call, so none is equal
  }
  check.equal = comparison->exact;
  check.comparison = std::move(*comparison);
  return check;
}

std::string verdict_line(const RecordingCheck& check) {
  if (check.calls == 0) {
    return "prediction: one rank makes no calls, and none were recorded";
  }
  const std::string last = check.of_last ? fmt::format(", of the last {} iteration{}", *check.of_last,
                                                       *check.of_last == 1 ? "" : "s")
                                         : "";
  return fmt::format("prediction: {} of {} calls equal{}", check.equal, check.calls, last);
}

}  // namespace commlens
