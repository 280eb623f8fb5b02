#include "commlens/live/rolling_tally.hpp"

#include <algorithm>
#include <utility>

#include "commlens/base/sums.hpp"
#include "commlens/comm/volume.hpp"
#include "commlens/summary/breakdown.hpp"

namespace commlens {
namespace {

/// As summary counts them: of the sum of a row, rounded down once.
Bytes wire_of_sum(const LiveOp& op, Bytes message) {
  return wire_bytes(op.kind, std::min(message, Bytes{INT64_MAX / 2}),
                    std::max<std::int64_t>(op.group_size, 1));
}

/// The bandwidth of a rank in the calls of the window; nothing where it has no meaning.
std::optional<double> bus_bandwidth(const LiveOp& op) {
  const bool means_something = op.kind != CommKind::other && op.group_size > 1;
  if (!means_something || op.recent.time.count() <= 0 || op.recent.message.value <= 0) {
    return std::nullopt;
  }
  const double seconds = static_cast<double>(op.recent.time.count()) / 1e9;
  return static_cast<double>(op.recent.message.value) / seconds * bus_factor(op.kind, op.group_size);
}

}  // namespace

LiveSums SlidingSums::sum(std::int64_t second) const {
  LiveSums sums;
  for (const Second& part : seconds_) {
    if (part.second >= 0 && part.second > second - std::ssize(seconds_) && part.second <= second) {
      sums.calls += part.calls;
      sums.message = saturating_sum(sums.message, Bytes{part.message_bytes});
      sums.time = std::chrono::nanoseconds(saturating_sum(sums.time.count(), part.time_ns));
    }
  }
  return sums;
}

std::uint32_t RollingTally::row_of(const Trace& tables, const CommOp& op, std::int64_t job_ranks) {
  const bool is_other = op.kind == CommKind::other;
  Key key(op.kind, is_other ? tables.names.text(op.name) : "", axis_in(tables, op, job_ranks),
          tables.groups.size(op.group));
  auto found = places_.find(key);
  if (found == places_.end() && rows_.size() >= k_most_rows) {
    key = Key(op.kind, k_more, Axis::unknown, 0);
    found = places_.find(key);
  }
  if (found == places_.end()) {
    found = places_.emplace(key, static_cast<std::uint32_t>(rows_.size())).first;
    LiveOp row;
    row.kind = op.kind;
    row.name = std::get<1>(key);
    row.axis = std::get<2>(key);
    row.group_size = std::get<3>(key);
    row.smallest = Bytes{INT64_MAX};
    rows_.push_back({.op = std::move(row), .recent = {}});
  }
  return found->second;
}

void RollingTally::add(std::uint32_t row, Bytes message, const std::chrono::nanoseconds* duration,
                       bool is_recent) {
  Row& its = rows_[row];
  LiveSums& sums = its.op.sums;
  ++sums.calls;
  sums.message = saturating_sum(sums.message, message);
  its.op.smallest = std::min(its.op.smallest, message);
  its.op.largest = std::max(its.op.largest, message);
  if (duration != nullptr) {
    sums.time = std::chrono::nanoseconds(saturating_sum(sums.time.count(), duration->count()));
    its.op.durations.add(*duration);
  }
  if (is_recent) {
    its.recent.add(second_, message, duration == nullptr ? std::chrono::nanoseconds{} : *duration);
  }
}

void RollingTally::add_first(std::uint32_t row, std::chrono::nanoseconds duration) {
  LiveOp& op = rows_[row].op;
  ++op.first_calls;
  op.first_time = std::chrono::nanoseconds(saturating_sum(op.first_time.count(), duration.count()));
}

std::vector<LiveOp> RollingTally::ops() const {
  std::vector<LiveOp> ops;
  for (const Row& row : rows_) {
    if (row.op.sums.calls > 0) {
      ops.emplace_back(row.op).recent = row.recent.sum(second_);
    }
  }
  return settled_ops(std::move(ops));
}

std::vector<LiveOp> settled_ops(std::vector<LiveOp> ops) {
  for (LiveOp& op : ops) {
    op.sums.wire = wire_of_sum(op, op.sums.message);
    // As SummaryRow::knows_wire.
    op.knows_wire =
        op.group_size == 1 || (op.kind != CommKind::other && (op.group_size > 0 || op.sums.wire != Bytes{}));
    op.recent.wire = wire_of_sum(op, op.recent.message);
    op.bus_bandwidth_bytes_per_s = bus_bandwidth(op);
  }
  std::sort(ops.begin(), ops.end(), [](const LiveOp& a, const LiveOp& b) {
    const auto order = [](const LiveOp& op) {
      return std::tuple(-op.sums.message.value, op.kind, std::string_view(op.name), op.axis, op.group_size);
    };
    return order(a) < order(b);
  });
  return ops;
}

void add_sums(LiveSums& total, const LiveSums& sums) {
  total.calls = saturating_sum(total.calls, sums.calls);
  total.message = saturating_sum(total.message, sums.message);
  total.wire = saturating_sum(total.wire, sums.wire);
  total.time = std::chrono::nanoseconds(saturating_sum(total.time.count(), sums.time.count()));
}

LiveSums total_of(const std::vector<LiveOp>& ops, LiveSums LiveOp::* part) {
  LiveSums total;
  for (const LiveOp& op : ops) {
    add_sums(total, op.*part);
  }
  return total;
}

}  // namespace commlens
