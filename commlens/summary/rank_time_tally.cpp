#include <algorithm>

#include "commlens/base/sums.hpp"
#include "commlens/summary/time_tally.hpp"

namespace commlens {
namespace {

using std::chrono::nanoseconds;

RankTimeTally::Era era_of(Iteration iteration) {
  return iteration == k_unknown_iteration ? RankTimeTally::Era::unknown
         : iteration == k_init_iteration  ? RankTimeTally::Era::init
                                          : RankTimeTally::Era::training;
}

/// The index of a key among entries, to which it is added if new.
template <typename Key, typename Part>
std::uint32_t place_of(std::vector<std::pair<Key, Part>>& entries, const Key& key) {
  const auto found =
      std::find_if(entries.begin(), entries.end(), [&](const auto& entry) { return entry.first == key; });
  if (found == entries.end()) {
    entries.emplace_back(key, Part());
    return static_cast<std::uint32_t>(entries.size() - 1);
  }
  return static_cast<std::uint32_t>(found - entries.begin());
}

void add_to(OverlapTotal& into, const OverlapTotal& from) {
  into.iterations += from.iterations;
  into.time.calls += from.time.calls;
  into.time.sum = nanoseconds(saturating_sum(into.time.sum.count(), from.time.sum.count()));
  into.time.total = nanoseconds(saturating_sum(into.time.total.count(), from.time.total.count()));
}

}  // namespace

void RankTimeTally::Part::add(const Interval& interval) {
  ++calls;
  sum_ns = saturating_sum(sum_ns, (interval.finished - interval.started).count());
  intervals.add(interval);
}

nanoseconds RankTimeTally::Part::close(Era era) {
  EraTotal& into = totals[static_cast<std::size_t>(era)];
  const nanoseconds total = intervals.take();
  into.iterations += era == Era::unknown ? 0 : 1;
  into.calls += calls;
  into.sum_ns = saturating_sum(into.sum_ns, sum_ns);
  into.total_ns = saturating_sum(into.total_ns, total.count());
  calls = 0;
  sum_ns = 0;
  return total;
}

void RankTimeTally::Part::add_iteration(Era era, const Interval& only) {
  EraTotal& into = totals[static_cast<std::size_t>(era)];
  const std::int64_t length = (only.finished - only.started).count();
  into.iterations += era == Era::unknown ? 0 : 1;
  ++into.calls;
  into.sum_ns = saturating_sum(into.sum_ns, length);
  into.total_ns = saturating_sum(into.total_ns, length);
}

/// The exposed time is not known.
OverlapTotal RankTimeTally::Part::total(Era era) const {
  const EraTotal& sums = totals[static_cast<std::size_t>(era)];
  OverlapTotal total;
  total.iterations = sums.iterations;
  total.time = {sums.calls, nanoseconds(sums.sum_ns), nanoseconds(sums.total_ns), {}, {}};
  return total;
}

RankTimeTally::RankTimeTally(const Trace& tables, RankRange ranks, const std::vector<bool>& pipeline_ops)
    : tables_(tables), ranks_(ranks), pipeline_ops_(pipeline_ops), slots_(tables.ops().size()) {}

RankTimeTally::Slots& RankTimeTally::slots_of(OpId id) {
  Slots& slots = slots_[static_cast<std::size_t>(id)];
  if (!slots.is_known) {
    const CommOp& op = tables_.op(id);
    const bool is_pair = is_point_to_point(op.kind);
    std::vector<Rank> members = tables_.groups.members(op.group, ranks_.first);
    if (is_pair) {
      std::sort(members.begin(), members.end());
    }
    const GroupKind kind{tables_.groups.axis(op.group), is_pair, std::ssize(members)};
    slots.op = place_of(ops_, OpKey{op.kind, op.kind == CommKind::other ? op.name : NameId{}});
    slots.group = place_of(groups_, std::pair(kind, std::move(members)));
    slots.is_known = true;
  }
  return slots;
}

void RankTimeTally::add(const CommEvent& event, const Times& times) {
  const Interval interval = occupied(times);
  if (iteration_ != event.iteration) {
    close_iteration();
    iteration_ = event.iteration;
    is_exact_ &= !closed_.contains(event.iteration);
    span_ = interval;
    lone_ = event.op;
    return;
  }
  if (lone_) {
    put(*lone_, span_);
    lone_.reset();
  }
  put(event.op, interval);
  span_.started = std::min(span_.started, interval.started);
  span_.finished = std::max(span_.finished, interval.finished);
}

void RankTimeTally::put(OpId id, const Interval& interval) {
  const Slots& slots = slots_of(id);
  Part& op = ops_[slots.op].second;
  Part& group = groups_[slots.group].second;
  if (op.calls == 0) {
    met_ops_.push_back(slots.op);
  }
  if (group.calls == 0) {
    met_groups_.push_back(slots.group);
  }
  all_.add(interval);
  op.add(interval);
  group.add(interval);
  if (pipeline_ops_[static_cast<std::size_t>(id)]) {
    pipeline_.add(interval);
  }
}

/// The current iteration has a single call, which is not a pipeline call.
void RankTimeTally::close_lone(OpId id, Era era) {
  const Slots& slots = slots_of(id);
  all_.add_iteration(era, span_);
  ops_[slots.op].second.add_iteration(era, span_);
  groups_[slots.group].second.add_iteration(era, span_);
}

void RankTimeTally::close_iteration() {
  if (!iteration_) {
    return;
  }
  const Era era = era_of(*iteration_);
  const nanoseconds span = span_.finished - span_.started;
  std::int64_t& spans_ns = spans_ns_[static_cast<std::size_t>(era)];
  spans_ns = saturating_sum(spans_ns, span.count());
  if (lone_ && !pipeline_ops_[static_cast<std::size_t>(*lone_)]) {
    close_lone(*lone_, era);
  } else {
    close_parts(era, span);
  }
  lone_.reset();
  closed_.insert(*iteration_);
}

void RankTimeTally::close_parts(Era era, nanoseconds span) {
  if (lone_) {
    put(*lone_, span_);
  }
  all_.close(era);
  for (const std::uint32_t place : met_ops_) {
    ops_[place].second.close(era);
  }
  for (const std::uint32_t place : met_groups_) {
    groups_[place].second.close(era);
  }
  met_ops_.clear();
  met_groups_.clear();
  if (pipeline_.calls > 0) {
    const nanoseconds in_pipeline = pipeline_.close(era);
    if (era != Era::init) {
      bubble_ = bubble_.value_or(BubbleTotal{.ranks = ranks_});
      bubble_->add({ranks_, *iteration_, span, in_pipeline, {}});
    }
  }
}

void RankTimeTally::finish() {
  close_iteration();
  for (const Era era : {Era::init, Era::training, Era::unknown}) {
    if (all_.has(era)) {
      sums_[static_cast<std::size_t>(era)] = sums_of(era);
    }
  }
}

RankTimeTally::Sums RankTimeTally::sums_of(Era era) const {
  Sums sums{all_.total(era), {}, {}};
  sums.all.span = nanoseconds(spans_ns_[static_cast<std::size_t>(era)]);
  for (const auto& [key, part] : ops_) {
    if (part.has(era)) {
      sums.ops.emplace(key, part.total(era));
    }
  }
  for (const auto& [key, part] : groups_) {
    if (part.has(era)) {  // several of a kind: each by its own members
      const auto [found, is_new] = sums.groups.try_emplace(key.first, part.total(era));
      if (!is_new) {
        add_to(found->second, part.total(era));
      }
    }
  }
  return sums;
}

bool RankTimeTally::is_exact() const {
  const auto has_exact = [](const auto& entry) { return entry.second.intervals.is_exact(); };
  return is_exact_ && all_.intervals.is_exact() && pipeline_.intervals.is_exact() &&
         std::all_of(ops_.begin(), ops_.end(), has_exact) &&
         std::all_of(groups_.begin(), groups_.end(), has_exact);
}

}  // namespace commlens
