#include "commlens/summary/breakdown.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include "commlens/base/sums.hpp"
#include "commlens/comm/volume.hpp"
#include "commlens/summary/node_share.hpp"
#include "commlens/trace/logger_view.hpp"

namespace commlens {
namespace {

struct OpCount {
  OpId op{};
  std::int64_t calls = 0;
};

/// The number of calls of each op in a stream, in order of first use.
std::vector<OpCount> count_ops(const Trace& trace, const RankStream& stream,
                               const std::vector<Iteration>& wanted) {
  std::vector<OpCount> counts;
  std::vector<std::uint32_t> place(trace.ops().size(), UINT32_MAX);
  std::optional<Iteration> last;  // iterations come in runs: check once per run
  bool is_wanted = true;
  for (const CommEvent& event : stream.events) {
    if (!wanted.empty() && last != event.iteration) {
      last = event.iteration;
      is_wanted = std::find(wanted.begin(), wanted.end(), event.iteration) != wanted.end();
    }
    if (!is_wanted) {
      continue;
    }
    std::uint32_t& at = place[static_cast<std::size_t>(event.op)];
    if (at == UINT32_MAX) {
      at = static_cast<std::uint32_t>(counts.size());
      counts.push_back({event.op, 0});
    }
    ++counts[at].calls;
  }
  return counts;
}

/// The key of a row within a class, in BreakdownRow's order.
auto key_of(const BreakdownRow& row) {
  return std::tuple(row.kind, row.axis, row.group_size, row.phase, row.dtype, row.message, row.rounding,
                    row.match, row.rule, row.tag, row.name, row.site);
}
using BreakdownKey = decltype(key_of(BreakdownRow{}));

BreakdownRow row_of(const Trace& trace, const CommOp& op, const BreakdownOptions& options) {
  const bool logger = options.accounting == Accounting::comms_logger ||
                      trace.provenance.accounting == Accounting::comms_logger;
  BreakdownRow row;
  row.kind = op.kind;
  row.group_size = trace.groups.size(op.group);
  row.phase = op.phase;
  row.dtype = op.dtype;
  row.message = logger ? logged_bytes(op) : message_bytes(op);
  row.rounding = op.rounding;
  row.match = op.match;
  if (options.by_rule) {
    row.rule = op.rule;
    row.tag = options.by_tag ? op.tag : TagId{};
    row.site = op.site;
  }
  if (options.by_rule || op.kind == CommKind::other) {
    row.name = op.name;
  }
  return row;
}

/// Wire bytes of a sum of messages; half the range is far beyond any job and leaves room for the factor 2.
Bytes wire_of(const BreakdownRow& row, Bytes message) {
  return wire_bytes(row.kind, std::min(message, Bytes{INT64_MAX / 2}),
                    std::max<std::int64_t>(row.group_size, 1));
}

/// The rows of one class of ranks.
class StreamRows {
 public:
  StreamRows(const Trace& trace, const BreakdownOptions& options, RankRange ranks)
      : trace_(trace), options_(options), ranks_(ranks), job_ranks_(trace.job_ranks()) {}

  void add(const OpCount& count) {
    const CommOp& op = trace_.op(count.op);
    BreakdownRow row = row_of(trace_, op, options_);
    row.ranks = ranks_;
    row.op = count.op;
    row.axis = axis_in(trace_, op, job_ranks_);
    const auto [found, added] = places_.try_emplace(key_of(row), rows_.size());
    if (added) {
      rows_.push_back(row);
      moved_.emplace_back();
      crossing_.emplace_back();
    }
    BreakdownRow& kept = rows_[found->second];
    const Bytes total = saturating_product(row.message, count.calls);
    kept.calls += count.calls;
    kept.total_message = saturating_sum(kept.total_message, total);
    // The moved bytes do not depend on a logger's accounting.
    const Bytes moved = saturating_product(message_bytes(op), count.calls);
    moved_[found->second] = saturating_sum(moved_[found->second], moved);
    if (options_.ranks_per_node > 0) {
      const Fraction share = share_of(op);
      Bytes& message = crossing_[found->second][{share.numerator, share.denominator}];
      message = saturating_sum(message, moved);
    }
  }

  std::vector<BreakdownRow> finished() {
    for (std::size_t at = 0; at < rows_.size(); ++at) {
      BreakdownRow& row = rows_[at];
      row.wire_per_rank = wire_of(row, moved_[at]);
      for (const auto& [share, message] : crossing_[at]) {
        row.wire_inter_node += part_of(wire_of(row, message), {share.first, share.second});
      }
    }
    return std::move(rows_);
  }

 private:
  Fraction share_of(const CommOp& op) {
    const auto [found, added] = shares_.try_emplace({op.group, op.kind}, Fraction{});
    if (added) {
      found->second = inter_node_share(trace_.groups, op.group, op.kind, ranks_, options_.ranks_per_node);
    }
    return found->second;
  }

  const Trace& trace_;
  const BreakdownOptions& options_;
  RankRange ranks_;
  std::int64_t job_ranks_;
  std::vector<BreakdownRow> rows_;
  std::vector<Bytes> moved_;  // per row: message bytes as docs/volumes.md defines them
  std::vector<std::map<std::pair<std::int64_t, std::int64_t>, Bytes>> crossing_;  // per row: share -> message
  std::map<BreakdownKey, std::size_t> places_;
  std::map<std::pair<GroupId, CommKind>, Fraction> shares_;
};

}  // namespace

Axis axis_in(const Trace& trace, const CommOp& op, std::int64_t job_ranks) {
  const Axis axis = trace.groups.axis(op.group);
  const bool everyone = !is_point_to_point(op.kind) && trace.groups.size(op.group) == job_ranks;
  return axis == Axis::unknown && everyone ? Axis::world : axis;
}

std::vector<BreakdownRow> breakdown(const Trace& trace, const BreakdownOptions& options) {
  std::vector<BreakdownRow> all;
  for (const RankStream& stream : trace.streams) {
    if (options.rank && !stream.ranks.contains(*options.rank)) {
      continue;
    }
    StreamRows rows(trace, options, options.rank ? RankRange{*options.rank, *options.rank} : stream.ranks);
    for (const OpCount& count : count_ops(trace, stream, options.iterations)) {
      const bool hidden =
          options.accounting == Accounting::comms_logger && !logger_sees(trace.rule(trace.op(count.op).rule));
      if (!hidden) {
        rows.add(count);
      }
    }
    const std::vector<BreakdownRow> finished = rows.finished();
    all.insert(all.end(), finished.begin(), finished.end());
  }
  return all;
}

Totals total_per_rank(const std::vector<BreakdownRow>& rows, RankRange ranks) {
  Totals totals;
  for (const BreakdownRow& row : rows) {
    if (row.ranks == ranks) {
      totals.calls += row.calls;
      totals.message = saturating_sum(totals.message, row.total_message);
      totals.wire = saturating_sum(totals.wire, row.wire_per_rank);
    }
  }
  return totals;
}

Bytes aggregate_wire(const std::vector<BreakdownRow>& rows) {
  Bytes sum;
  for (const BreakdownRow& row : rows) {
    sum = saturating_sum(sum, saturating_product(row.wire_per_rank, row.ranks.count()));
  }
  return sum;
}

}  // namespace commlens
