#include "commlens/live/merged_ops.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "commlens/base/sums.hpp"
#include "commlens/live/rolling_tally.hpp"

namespace commlens {

std::vector<LiveOp> merged_ops(const std::vector<const std::vector<LiveOp>*>& nodes, std::int64_t job_ranks) {
  using Key = std::tuple<CommKind, std::string, Axis, std::int64_t>;
  std::map<Key, std::size_t> rows;
  std::vector<LiveOp> ops;
  for (const std::vector<LiveOp>* const of_node : nodes) {
    for (const LiveOp& op : *of_node) {
      const bool is_world =
          op.axis == Axis::unknown && !is_point_to_point(op.kind) && op.group_size == job_ranks;
      Key key(op.kind, op.name, is_world ? Axis::world : op.axis, op.group_size);
      if (!rows.contains(key) && ops.size() >= RollingTally::k_most_rows) {
        key = Key(op.kind, RollingTally::k_more, Axis::unknown, 0);
      }
      const auto [found, is_new] = rows.try_emplace(key, ops.size());
      if (is_new) {
        LiveOp& row = ops.emplace_back(op);
        std::tie(row.kind, row.name, row.axis, row.group_size) = key;
        continue;
      }
      LiveOp& row = ops[found->second];
      add_sums(row.sums, op.sums);
      add_sums(row.recent, op.recent);
      row.first_calls = saturating_sum(row.first_calls, op.first_calls);
      row.first_time =
          std::chrono::nanoseconds(saturating_sum(row.first_time.count(), op.first_time.count()));
      row.smallest = std::min(row.smallest, op.smallest);
      row.largest = std::max(row.largest, op.largest);
      row.durations.merge(op.durations);
    }
  }
  return settled_ops(std::move(ops));
}

}  // namespace commlens
