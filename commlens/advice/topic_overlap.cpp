// Gradient reductions that do not overlap computing in the trace, and the setting that would overlap them.
#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "commlens/advice/topics.hpp"
#include "commlens/base/sums.hpp"
#include "commlens/comm/volume.hpp"
#include "commlens/frameworks/frameworks.hpp"
#include "commlens/summary/overlap.hpp"
#include "commlens/trace/group_axes.hpp"
#include "commlens/trace/training_steps.hpp"

namespace commlens {
namespace {

using std::chrono::nanoseconds;

/// Sums over ranks and steady iterations.
struct Exposure {
  std::int64_t steps = 0;   // rank-iterations
  nanoseconds gradients{};  // exposed time of the gradient reductions
  nanoseconds hideable{};   // part of it that could overlap computing without calls
  nanoseconds exposed{};    // of all communication
  nanoseconds step{};
};

/// Large reductions along the data ranks.
bool reduces_gradients(const CommOp& op, Axis axis, Bytes small_limit) {
  const bool reduces =
      op.kind == CommKind::all_reduce || op.kind == CommKind::reduce_scatter || op.kind == CommKind::reduce;
  return reduces && axis == Axis::dp && message_bytes(op) >= small_limit;
}

/// Intervals of gradient reductions on one rank, by iteration. Recordings of frameworks do not name the axis
/// of a group, so it is that of the members on the job's mesh.
std::map<Iteration, Intervals> gradient_times(const Study& study, const RankStream& stream) {
  const Trace& trace = *study.trace();
  AxesByMembers axes(trace, study.job().layout.mesh());
  std::map<Iteration, std::vector<Interval>> calls;
  for (std::size_t at = 0; at < stream.times.size(); ++at) {
    const CommEvent& event = stream.events[at];
    const CommOp& op = trace.op(event.op);
    if (reduces_gradients(op, axes.of(op, stream.ranks.first), study.options().small_limit)) {
      calls[event.iteration].push_back(occupied(stream.times[at]));
    }
  }
  std::map<Iteration, Intervals> times;
  for (auto& [iteration, intervals] : calls) {
    times[iteration] = united(std::move(intervals));
  }
  return times;
}

Intervals compute_times(const RankStream& stream) {
  std::vector<Interval> intervals;
  for (const ComputeInterval& interval : stream.compute) {
    intervals.push_back({held(interval.started), held(interval.finished)});
  }
  return united(std::move(intervals));
}

void add(nanoseconds& sum, nanoseconds part) { sum = nanoseconds(saturating_sum(sum.count(), part.count())); }

Exposure exposure_of(const Study& study) {
  const Trace& trace = *study.trace();
  const Iteration cold = cold_iteration(trace);
  const std::vector<IterationOverlap> overlaps = communication_overlap(trace);
  Exposure sum;
  for (const RankStream& stream : trace.streams) {
    const Intervals compute = compute_times(stream);
    const std::map<Iteration, Intervals> gradients = gradient_times(study, stream);
    for (const IterationOverlap& overlap : overlaps) {
      const CommunicationTime& all = overlap.all;
      if (overlap.ranks != stream.ranks || overlap.iteration <= cold || !all.exposed || !all.overlapped ||
          !overlap.compute) {
        continue;
      }
      const auto found = gradients.find(overlap.iteration);
      const nanoseconds exposed =
          found == gradients.end() ? nanoseconds(0) : length(difference(found->second, compute));
      ++sum.steps;
      add(sum.gradients, exposed);
      add(sum.hideable, std::min(exposed, *overlap.compute - *all.overlapped));
      add(sum.exposed, *all.exposed);
      add(sum.step, overlap.length());
    }
  }
  return sum;
}

double share(nanoseconds part, nanoseconds whole) {
  return whole.count() == 0 ? 0.0 : static_cast<double>(part.count()) / static_cast<double>(whole.count());
}

}  // namespace

void advise_overlap(Study& study) {
  if (study.trace() == nullptr || !study.times()) {
    return study.cannot_judge("overlap: give a recording of the job, with times");
  }
  const Exposure sum = exposure_of(study);
  if (sum.steps == 0) {
    return study.cannot_judge("overlap: the trace does not say when its ranks computed");
  }
  const std::string measured = fmt::format(
      "of a steady step, mean over ranks, {} is communication that nothing covers, {} of it gradient "
      "reductions",
      share_text(share(sum.exposed, sum.step), 1), share_text(share(sum.gradients, sum.exposed), 1));
  std::vector<AdvisedChange> advised = advised_changes(study.job(), AdviceTopic::overlap);
  if (advised.empty() || share(sum.hideable, sum.step) < study.options().least_saving) {
    return study.leave(
        fmt::format("overlap: {}{}", measured,
                    !advised.empty() ? "" : "; this framework has no setting left that overlaps more"));
  }
  const std::optional<Outcome> tried = study.outcome(std::move(advised.front().job));
  if (!tried || (study.options().memory && !study.fits(tried->cost()))) {
    return study.leave(fmt::format("overlap: {}; overlapping does not fit", measured));
  }
  Change change{.id = "overlap",
                .title = "Reduce gradients while the backward pass computes",
                .setting = std::move(advised.front().setting)};
  change.reason = measured + "; the backward pass computes long enough to cover " +
                  share_text(share(sum.hideable, sum.gradients), 1) + " of those.";
  study.recommend(
      std::move(change), *tried, sum.hideable / sum.steps,
      "at most: the exposed time of gradient reductions, as far as computing that overlaps nothing yet "
      "is that long; means over ranks and steady iterations");
}

}  // namespace commlens
