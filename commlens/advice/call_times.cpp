#include "commlens/advice/call_times.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "commlens/base/sums.hpp"
#include "commlens/comm/volume.hpp"
#include "commlens/trace/group_axes.hpp"
#include "commlens/trace/training_steps.hpp"

namespace commlens {
namespace {

/// Durations of one shape of call: every one of the first 4096, then every second, fourth, … so that a long
/// trace is sampled evenly in bounded memory.
class Samples {
 public:
  void add(std::int64_t duration) {
    if (seen_++ % stride_ != 0) {
      return;
    }
    values_.push_back(duration);
    if (values_.size() == k_most) {
      for (std::size_t at = 0; at < values_.size() / 2; ++at) {
        values_[at] = values_[2 * at];
      }
      values_.resize(values_.size() / 2);
      stride_ *= 2;
    }
  }

  bool empty() const { return values_.empty(); }

  /// Of at least one.
  double median() {
    const auto middle = values_.begin() + static_cast<std::ptrdiff_t>(values_.size() / 2);
    std::nth_element(values_.begin(), middle, values_.end());
    if (values_.size() % 2 == 1) {
      return static_cast<double>(*middle);
    }
    const std::int64_t below = *std::max_element(values_.begin(), middle);
    return (static_cast<double>(below) + static_cast<double>(*middle)) / 2;
  }

 private:
  static constexpr std::size_t k_most = 8192;
  std::vector<std::int64_t> values_;
  std::int64_t seen_ = 0;
  std::int64_t stride_ = 1;
};

constexpr std::array<CommKind, 5> k_ring_kinds = {CommKind::all_reduce, CommKind::reduce_scatter,
                                                  CommKind::all_gather, CommKind::reduce,
                                                  CommKind::broadcast};

bool is_ring_kind(CommKind kind) {
  return std::find(k_ring_kinds.begin(), k_ring_kinds.end(), kind) != k_ring_kinds.end();
}

/// The durations of a trace's calls by shape.
class Durations {
 public:
  Durations(const Trace& trace, const Mesh& mesh) {
    AxesByMembers axes(trace, mesh);
    for (const CommOp& op : trace.ops()) {
      // A list of ranks is the same for all of them, and a pattern runs along one axis for all.
      const CallShape shape{op.kind, axes.of(op, Rank{0}), trace.groups.size(op.group), message_bytes(op)};
      rows_.push_back(&samples_.try_emplace(shape).first->second);
    }
  }
  void add(OpId op, std::int64_t duration) { rows_[static_cast<std::size_t>(op)]->add(duration); }
  std::map<CallShape, Samples>& samples() { return samples_; }

 private:
  std::map<CallShape, Samples> samples_;
  std::vector<Samples*> rows_;  // by op
};

void add(std::optional<std::chrono::nanoseconds>& sum, std::int64_t duration) {
  const std::int64_t so_far = sum ? sum->count() : 0;
  sum = std::chrono::nanoseconds(saturating_sum(so_far, duration));
}

void count(SmallMessages& small, Bytes message, std::int64_t duration) {
  ++small.all_calls;
  add(small.all_time, duration);
  if (message < small.limit) {
    ++small.calls;
    add(small.time, duration);
  }
}

/// Whether a call of this kind has a cost; barriers and receives mostly wait.
bool has_price(CommKind kind) { return kind != CommKind::barrier && kind != CommKind::recv; }

}  // namespace

CallTimes::Group CallTimes::group_of(const CallShape& call) const {
  const bool everyone = !is_point_to_point(call.kind) && call.group_size == ranks_;
  return {call.kind, everyone ? Axis::world : call.axis, call.group_size};
}

std::optional<CallTimes> CallTimes::of(const Trace& trace, const Mesh& mesh, Bytes small_limit) {
  if (trace.provenance.averaged_times) {
    return std::nullopt;
  }
  const Iteration cold = cold_iteration(trace);
  CallTimes times;
  times.ranks_ = mesh.ranks();
  times.small_ = {
      .limit = small_limit, .time = std::chrono::nanoseconds(0), .all_time = std::chrono::nanoseconds(0)};
  Durations durations(trace, mesh);
  Samples steps;
  for (const RankStream& stream : trace.streams) {
    if (stream.times.empty()) {
      continue;
    }
    for (std::size_t at = 0; at < stream.events.size(); ++at) {
      const CommEvent& event = stream.events[at];
      const CommOp& op = trace.op(event.op);
      if (event.iteration > cold && op.kind != CommKind::barrier) {
        const Times& when = stream.times[at];
        const std::int64_t duration = time_between(when.started, when.finished).count();
        durations.add(event.op, duration);
        count(times.small_, message_bytes(op), duration);
      }
    }
    for (const Step& step : steps_after(cold, stream)) {
      steps.add(step.length.count());
    }
  }
  for (auto& [shape, samples] : durations.samples()) {
    if (!samples.empty()) {
      times.medians_[times.group_of(shape)][shape.message] = samples.median();
    }
  }
  if (times.medians_.empty()) {
    return std::nullopt;
  }
  if (!steps.empty()) {
    times.step_ = std::chrono::nanoseconds(std::llround(steps.median()));
  }
  return times;
}

std::optional<double> CallTimes::interpolated(const Group& group, double message) const {
  const auto found = medians_.find(group);
  if (found == medians_.end()) {
    return std::nullopt;
  }
  const std::map<Bytes, double>& sizes = found->second;
  const auto above = std::find_if(sizes.begin(), sizes.end(), [&](const auto& size) {
    return static_cast<double>(size.first.value) >= message;
  });
  if (above == sizes.begin()) {
    return above->second;
  }
  const auto below = std::prev(above);
  const auto below_size = static_cast<double>(below->first.value);
  if (above == sizes.end()) {
    return below_size > 0 ? below->second * message / below_size : below->second;
  }
  const double part = (message - below_size) / (static_cast<double>(above->first.value) - below_size);
  return below->second + part * (above->second - below->second);
}

std::optional<double> CallTimes::nanoseconds_of(const CallShape& call) const {
  if (!has_price(call.kind)) {
    return std::nullopt;
  }
  if (call.group_size == 1 && !is_point_to_point(call.kind)) {
    return 0.0;
  }
  const auto message = static_cast<double>(call.message.value);
  const std::optional<double> known = interpolated(group_of(call), message);
  if (known || !is_ring_kind(call.kind)) {
    return known;
  }
  const double factor = bus_factor(call.kind, call.group_size);
  for (const CommKind kind : k_ring_kinds) {
    const double same_traffic = message * factor / bus_factor(kind, call.group_size);
    const Group other = group_of({kind, call.axis, call.group_size, {}});
    if (const std::optional<double> same = interpolated(other, same_traffic)) {
      return same;
    }
  }
  return std::nullopt;
}

std::optional<double> CallTimes::nanoseconds_of(const std::map<CallShape, std::int64_t>& calls) const {
  double sum = 0;
  for (const auto& [shape, count] : calls) {
    if (count == 0 || !has_price(shape.kind)) {
      continue;
    }
    const std::optional<double> each = nanoseconds_of(shape);
    if (!each) {
      return std::nullopt;
    }
    sum += static_cast<double>(count) * *each;
  }
  return sum;
}

std::optional<CallShape> CallTimes::unknown_in(const std::map<CallShape, std::int64_t>& calls) const {
  for (const auto& [shape, count] : calls) {
    if (count != 0 && has_price(shape.kind) && !nanoseconds_of(shape)) {
      return shape;
    }
  }
  return std::nullopt;
}

std::map<CallShape, std::int64_t> fewer_calls(const PlannedStep& before, const PlannedStep& after) {
  std::map<CallShape, std::int64_t> fewer = before.calls;
  for (const auto& [shape, calls] : after.calls) {
    fewer[shape] -= calls;
  }
  return fewer;
}

std::optional<std::chrono::nanoseconds> time_saved(const PlannedStep& before, const PlannedStep& after,
                                                   const CallTimes& times) {
  const std::optional<double> saved = times.nanoseconds_of(fewer_calls(before, after));
  return saved ? std::optional(std::chrono::nanoseconds(std::llround(*saved))) : std::nullopt;
}

}  // namespace commlens
