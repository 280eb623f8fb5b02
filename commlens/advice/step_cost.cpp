#include "commlens/advice/step_cost.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "commlens/base/check.hpp"
#include "commlens/base/sums.hpp"
#include "commlens/comm/volume.hpp"
#include "commlens/frameworks/memory.hpp"
#include "commlens/model/parameters.hpp"
#include "commlens/summary/breakdown.hpp"
#include "commlens/trace/group_axes.hpp"

namespace commlens {
namespace {

/// The cost of one rank of a row's class.
StepVolume volume_of(const BreakdownRow& row, Bytes small_limit) {
  const bool is_small = row.kind != CommKind::barrier && row.message < small_limit;
  return {row.calls, is_small ? row.calls : 0, row.total_message, row.wire_per_rank, row.wire_inter_node};
}

void add(StepVolume& sum, const StepVolume& part, std::int64_t times) {
  sum.calls = saturating_sum(sum.calls, saturating_product(part.calls, times));
  sum.small_calls = saturating_sum(sum.small_calls, saturating_product(part.small_calls, times));
  sum.message = saturating_sum(sum.message, saturating_product(part.message, times));
  sum.wire = saturating_sum(sum.wire, saturating_product(part.wire, times));
  sum.wire_inter_node = saturating_sum(sum.wire_inter_node, saturating_product(part.wire_inter_node, times));
}

/// The calls of each rank of a class. Axes are derived from members, so that they equal those of a recording.
std::map<CallShape, std::int64_t> calls_of(const Trace& trace, RankRange ranks) {
  std::map<CallShape, std::int64_t> calls;
  const RankStream* const stream = trace.stream_of(ranks.first);
  const std::optional<Mesh> mesh = trace.groups.mesh();
  COMMLENS_CHECK(stream != nullptr && mesh, "a plan has a mesh, and a stream for every class");
  std::vector<std::int64_t> times(trace.ops().size(), 0);
  for (const CommEvent& event : stream->events) {
    ++times[static_cast<std::size_t>(event.op)];
  }
  AxesByMembers axes(trace, *mesh);
  for (std::size_t at = 0; at < times.size(); ++at) {
    const CommOp& op = trace.ops()[at];
    if (times[at] > 0) {
      calls[{op.kind, axes.of(op, ranks.first), trace.groups.size(op.group), message_bytes(op)}] += times[at];
    }
  }
  return calls;
}

}  // namespace

double pipeline_bubble(const Job& job) {
  const auto waits = static_cast<double>(job.layout.pp - 1);
  const auto works =
      static_cast<double>(job.train.micro_batches) * static_cast<double>(job.layout.virtual_stages);
  return waits / (works + waits);
}

PlannedStep planned_step(const Plan& plan, const AdviceOptions& options) {
  BreakdownOptions by_call;
  by_call.by_tag = false;
  by_call.by_rule = false;
  by_call.ranks_per_node = options.ranks_per_node;
  const Trace trace = plan.trace_of({plan.steady_iteration()});
  const std::vector<BreakdownRow> rows = breakdown(trace, by_call);
  PlannedStep step;
  std::map<RankRange, StepVolume> classes;
  for (const BreakdownRow& row : rows) {
    const StepVolume volume = volume_of(row, options.small_limit);
    add(classes[row.ranks], volume, 1);
    add(step.cost.all_ranks, volume, row.ranks.count());
  }
  const auto busiest = std::max_element(classes.begin(), classes.end(), [](const auto& a, const auto& b) {
    return std::pair(a.second.wire, a.second.calls) < std::pair(b.second.wire, b.second.calls);
  });
  if (busiest != classes.end()) {
    step.cost.per_rank = busiest->second;
    step.calls = calls_of(trace, busiest->first);
  }
  step.cost.memory = memory_per_rank(plan.job).total();
  step.cost.bubble = pipeline_bubble(plan.job);
  return step;
}

}  // namespace commlens
