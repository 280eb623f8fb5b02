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

/// Adds the calls of an iteration; nothing is known of what is exposed.
void add_to(OverlapTotal& total, const CommunicationTime& time, bool is_known) {
  total.iterations += is_known ? 1 : 0;
  total.time.calls += time.calls;
  total.time.sum = nanoseconds(saturating_sum(total.time.sum.count(), time.sum.count()));
  total.time.total = nanoseconds(saturating_sum(total.time.total.count(), time.total.count()));
}

/// The place of a key among entries, to which it is added if new.
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

}  // namespace

void RankTimeTally::Part::add(const Interval& stretch) {
  ++calls;
  sum_ns = saturating_sum(sum_ns, (stretch.finished - stretch.started).count());
  stretches.add(stretch);
}

CommunicationTime RankTimeTally::Part::take() {
  const CommunicationTime time{calls, nanoseconds(sum_ns), stretches.take(), {}, {}};
  calls = 0;
  sum_ns = 0;
  return time;
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
  const Interval stretch = occupied(times);
  if (iteration_ != event.iteration) {
    close_iteration();
    iteration_ = event.iteration;
    is_exact_ &= !closed_.contains(event.iteration);
    span_ = stretch;
  }
  const Slots& slots = slots_of(event.op);
  Part& op = ops_[slots.op].second;
  Part& group = groups_[slots.group].second;
  if (op.calls == 0) {
    met_ops_.push_back(slots.op);
  }
  if (group.calls == 0) {
    met_groups_.push_back(slots.group);
  }
  all_.add(stretch);
  op.add(stretch);
  group.add(stretch);
  if (pipeline_ops_[static_cast<std::size_t>(event.op)]) {
    pipeline_.add(stretch);
  }
  span_.started = std::min(span_.started, stretch.started);
  span_.finished = std::max(span_.finished, stretch.finished);
}

void RankTimeTally::close_iteration() {
  if (!iteration_) {
    return;
  }
  const Era era = era_of(*iteration_);
  const bool is_known = era != Era::unknown;
  std::optional<Sums>& sums = sums_[static_cast<std::size_t>(era)];
  if (!sums) {
    sums.emplace();
  }
  const nanoseconds span = span_.finished - span_.started;
  add_to(sums->all, all_.take(), is_known);
  sums->all.span = nanoseconds(saturating_sum(sums->all.span.count(), span.count()));
  for (const std::uint32_t place : met_ops_) {
    add_to(sums->ops[ops_[place].first], ops_[place].second.take(), is_known);
  }
  for (const std::uint32_t place : met_groups_) {
    add_to(sums->groups[groups_[place].first.first], groups_[place].second.take(), is_known);
  }
  met_ops_.clear();
  met_groups_.clear();
  const bool has_pipeline = pipeline_.calls > 0;
  const CommunicationTime pipeline = pipeline_.take();
  if (has_pipeline && era != Era::init) {
    bubble_ = bubble_.value_or(BubbleTotal{.ranks = ranks_});
    bubble_->add({ranks_, *iteration_, span, pipeline.total, {}});
  }
  closed_.insert(*iteration_);
}

void RankTimeTally::finish() { close_iteration(); }

bool RankTimeTally::is_exact() const {
  const auto has_exact = [](const auto& entry) { return entry.second.stretches.is_exact(); };
  return is_exact_ && all_.stretches.is_exact() && pipeline_.stretches.is_exact() &&
         std::all_of(ops_.begin(), ops_.end(), has_exact) &&
         std::all_of(groups_.begin(), groups_.end(), has_exact);
}

}  // namespace commlens
