#include "commlens/summary/bubble.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "commlens/base/sums.hpp"
#include "commlens/summary/iteration_parts.hpp"

namespace commlens {
namespace {

bool is_pipeline_call(const Trace& trace, const CommOp& op) {
  if (!is_point_to_point(op.kind)) {
    return false;
  }
  const Axis axis = trace.groups.axis(op.group);
  const bool has_phase = op.phase != Phase::init && op.phase != Phase::other;
  return axis == Axis::pp || (axis == Axis::unknown && has_phase);
}

PipelineBubble bubble_of(const RankStream& stream, const IterationPart& part, const std::vector<bool>& ops) {
  Intervals pipeline;
  Intervals others;
  for (const std::uint32_t row : part.calls) {
    const bool is_pipeline = ops[static_cast<std::size_t>(stream.events[row].op)];
    (is_pipeline ? pipeline : others).push_back(occupied(stream.times[row]));
  }
  PipelineBubble bubble{.iteration = part.iteration, .span = part.span.finished - part.span.started};
  bubble.in_pipeline_calls = length(united(std::move(pipeline)));
  if (!stream.compute.empty()) {
    bubble.idle = bubble.span - length(united(part.compute, united(std::move(others))));
  }
  return bubble;
}

bool has_pipeline_call(const RankStream& stream, const IterationPart& part, const std::vector<bool>& ops) {
  return std::any_of(part.calls.begin(), part.calls.end(),
                     [&](std::uint32_t row) { return ops[static_cast<std::size_t>(stream.events[row].op)]; });
}

}  // namespace

/// The ranks connected by one iteration's sends.
class PipelineGraph {
 public:
  /// Adds a send that all `ranks` make.
  void add_sends(const Trace& trace, const RankRange& ranks, const CommEvent& send) {
    const CommOp& op = trace.op(send.op);
    for (const Rank rank : ranks) {
      const std::vector<Rank> pair = trace.groups.members(op.group, rank);
      if (pair.size() == 2) {
        add(pair[0], pair[1], op.phase, send.micro_batch);
      }
    }
  }

  void add(Rank source, Rank destination, Phase phase, std::int32_t micro_batch) {
    neighbours_[source].insert(destination);
    neighbours_[destination].insert(source);
    if (phase == Phase::forward) {
      ++forward_[{source, destination}];
    }
    if (micro_batch != k_no_micro_batch) {
      micro_batches_[source].insert(micro_batch);
    }
  }

  /// The shape of every pipeline; std::nullopt if one cannot be determined or two differ.
  std::optional<PipelineShape> shape() const {
    std::optional<PipelineShape> common;
    std::set<Rank> seen;
    for (const auto& [rank, neighbours] : neighbours_) {
      if (seen.contains(rank)) {
        continue;
      }
      const std::set<Rank> stages = connected_to(rank);
      seen.insert(stages.begin(), stages.end());
      const std::optional<PipelineShape> shape = shape_of(stages);
      if (!shape || (common && *common != *shape)) {
        return std::nullopt;
      }
      common = shape;
    }
    return common;
  }

 private:
  std::set<Rank> connected_to(Rank start) const {
    std::set<Rank> found{start};
    std::vector<Rank> open{start};
    while (!open.empty()) {
      const Rank rank = open.back();
      open.pop_back();
      for (const Rank next : neighbours_.at(rank)) {
        if (found.insert(next).second) {
          open.push_back(next);
        }
      }
    }
    return found;
  }

  std::int64_t forward(Rank source, Rank destination) const {
    const auto found = forward_.find({source, destination});
    return found == forward_.end() ? 0 : found->second;
  }

  std::optional<PipelineShape> shape_of(const std::set<Rank>& stages) const {
    std::set<std::int32_t> micro_batches;
    for (const Rank stage : stages) {
      const auto found = micro_batches_.find(stage);
      if (found != micro_batches_.end()) {
        micro_batches.insert(found->second.begin(), found->second.end());
      }
    }
    const std::optional<std::int64_t> chunks = chunks_of(stages);
    if (micro_batches.empty() || !chunks) {
      return std::nullopt;
    }
    return PipelineShape{std::ssize(stages), std::ssize(micro_batches), *chunks};
  }

  /// A stage's forward sends go to the stage after it, the last one's (when chunks are interleaved) to the
  /// first: with k messages a micro-batch and m micro-batches every stage but the last sends v m k, the last
  /// (v - 1) m k.
  std::optional<std::int64_t> chunks_of(const std::set<Rank>& stages) const {
    std::map<std::int64_t, std::int64_t> stages_by_sends;
    for (const Rank stage : stages) {
      std::int64_t sends = 0;
      std::int64_t receivers = 0;
      for (const Rank next : neighbours_.at(stage)) {
        sends += forward(stage, next);
        receivers += forward(stage, next) > 0 ? 1 : 0;
      }
      if (receivers > 1 || neighbours_.at(stage).size() > 2) {
        return std::nullopt;
      }
      ++stages_by_sends[sends];
    }
    if (stages_by_sends.size() != 2 || stages_by_sends.begin()->second != 1) {
      return std::nullopt;
    }
    const std::int64_t of_last = stages_by_sends.begin()->first;
    const std::int64_t of_others = stages_by_sends.rbegin()->first;
    const std::int64_t difference = of_others - of_last;
    return of_others % difference == 0 ? std::optional(of_others / difference) : std::nullopt;
  }

  std::map<Rank, std::set<Rank>> neighbours_;
  std::map<std::pair<Rank, Rank>, std::int64_t> forward_;  // sends
  std::map<Rank, std::set<std::int32_t>> micro_batches_;
};

double PipelineShape::ideal_bubble() const {
  const auto idle = static_cast<double>(stages - 1);
  return idle / (static_cast<double>(chunks) * static_cast<double>(micro_batches) + idle);
}

std::vector<bool> pipeline_ops(const Trace& trace) {
  std::vector<bool> ops;
  for (const CommOp& op : trace.ops()) {
    ops.push_back(is_pipeline_call(trace, op));
  }
  return ops;
}

PipelineShapeTally::PipelineShapeTally(const Trace& tables, const TimeSelection& selection)
    : tables_(tables),
      selection_(selection),
      ops_(pipeline_ops(tables)),
      has_ops_(std::find(ops_.begin(), ops_.end(), true) != ops_.end()),
      graph_(std::make_unique<PipelineGraph>()) {}

PipelineShapeTally::~PipelineShapeTally() = default;

void PipelineShapeTally::add(const RankRange& ranks, std::span<const CommEvent> events) {
  if (!has_ops_) {
    return;
  }
  for (const CommEvent& event : events) {
    const bool may_be_first = !first_ || event.iteration <= *first_;
    if (!may_be_first || event.iteration == k_init_iteration || !ops_[static_cast<std::size_t>(event.op)] ||
        !selects(selection_, event.iteration)) {
      continue;
    }
    if (first_ != event.iteration) {
      first_ = event.iteration;
      *graph_ = {};
    }
    if (tables_.op(event.op).kind == CommKind::send) {
      graph_->add_sends(tables_, ranks, event);
    }
  }
}

std::optional<PipelineShape> PipelineShapeTally::shape() const { return graph_->shape(); }

std::vector<PipelineBubble> stream_bubbles(const std::vector<bool>& ops, const RankStream& stream,
                                           const TimeSelection& selection) {
  std::vector<PipelineBubble> rows;
  if (std::find(ops.begin(), ops.end(), true) == ops.end() ||
      (selection.rank && !stream.ranks.contains(*selection.rank))) {
    return rows;
  }
  for (const IterationPart& part : iteration_parts(stream, selection)) {
    if (has_pipeline_call(stream, part, ops)) {
      rows.push_back(bubble_of(stream, part, ops));
      rows.back().ranks = selection.rank ? RankRange{*selection.rank, *selection.rank} : stream.ranks;
    }
  }
  return rows;
}

Bubbles pipeline_bubbles(const Trace& trace, const TimeSelection& selection) {
  Bubbles bubbles;
  PipelineShapeTally shape(trace, selection);
  const std::vector<bool> ops = pipeline_ops(trace);
  for (const RankStream& stream : trace.streams) {
    const std::vector<PipelineBubble> rows = stream_bubbles(ops, stream, selection);
    bubbles.rows.insert(bubbles.rows.end(), rows.begin(), rows.end());
    shape.add(stream.ranks, stream.events);
  }
  std::stable_sort(bubbles.rows.begin(), bubbles.rows.end(),
                   [](const PipelineBubble& a, const PipelineBubble& b) { return a.ranks < b.ranks; });
  if (!bubbles.rows.empty()) {
    bubbles.shape = shape.shape();
  }
  return bubbles;
}

void BubbleTotal::add(const PipelineBubble& row) {
  const auto add_to = [](std::chrono::nanoseconds& sum, std::chrono::nanoseconds time) {
    sum = std::chrono::nanoseconds(saturating_sum(sum.count(), time.count()));
  };
  ++iterations;
  add_to(span, row.span);
  add_to(bubble, row.bubble());
  add_to(in_calls, row.in_pipeline_calls);
  is_idle_known = is_idle_known && row.idle.has_value();
}

BubbleTotals bubble_totals(const Bubbles& bubbles) {
  BubbleTotals totals;
  for (const PipelineBubble& row : bubbles.rows) {
    if (row.iteration == k_init_iteration) {
      continue;
    }
    if (totals.by_rank.empty() || totals.by_rank.back().ranks != row.ranks) {
      totals.by_rank.push_back({.ranks = row.ranks});
    }
    totals.by_rank.back().add(row);
  }
  totals.shape = totals.by_rank.empty() ? std::nullopt : bubbles.shape;
  return totals;
}

}  // namespace commlens
