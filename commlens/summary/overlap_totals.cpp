#include "commlens/summary/overlap_totals.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <tuple>

#include "commlens/base/sums.hpp"

namespace commlens {
namespace {

using std::chrono::nanoseconds;

/// sum + times * time, saturated at the largest time.
nanoseconds added(nanoseconds sum, nanoseconds time, std::int64_t times) {
  return nanoseconds(saturating_sum(sum.count(), saturating_product(time.count(), times)));
}

std::optional<nanoseconds> added(std::optional<nanoseconds> sum, std::optional<nanoseconds> time,
                                 std::int64_t times) {
  return sum && time ? std::optional(added(*sum, *time, times)) : std::nullopt;
}

OverlapTotal nothing() {
  OverlapTotal total;
  total.time.exposed = total.time.overlapped = total.compute = total.idle = nanoseconds(0);
  return total;
}

/// Adds the calls `time` of an iteration, which are equal on `ranks` ranks.
void add(OverlapTotal& total, const CommunicationTime& time, const IterationOverlap& row,
         std::int64_t ranks) {
  total.iterations += row.iteration == k_unknown_iteration ? 0 : ranks;
  total.span = added(total.span, row.length(), ranks);
  total.time.calls = saturating_sum(total.time.calls, saturating_product(time.calls, ranks));
  total.time.sum = added(total.time.sum, time.sum, ranks);
  total.time.total = added(total.time.total, time.total, ranks);
  total.time.exposed = added(total.time.exposed, time.exposed, ranks);
  total.time.overlapped = added(total.time.overlapped, time.overlapped, ranks);
  total.compute = added(total.compute, row.compute, ranks);
  total.idle = added(total.idle, row.idle, ranks);
}

/// Most time first, each with the time of all rows.
template <typename Key>
std::vector<OverlapTotal> sorted(const std::map<Key, OverlapTotal>& totals,
                                 const std::vector<IterationOverlap>& rows) {
  nanoseconds span{};
  for (const IterationOverlap& row : rows) {
    span = added(span, row.length(), row.ranks.count());
  }
  std::vector<OverlapTotal> result;
  for (const auto& [key, total] : totals) {
    result.push_back(total);
    result.back().span = span;
  }
  std::stable_sort(result.begin(), result.end(),
                   [](const OverlapTotal& a, const OverlapTotal& b) { return a.time.total > b.time.total; });
  return result;
}

bool is_unknown(const IterationOverlap& row) { return row.iteration == k_unknown_iteration; }

}  // namespace

std::vector<IterationOverlap> of_training(std::vector<IterationOverlap> rows) {
  const auto is_known = [](const IterationOverlap& row) { return row.iteration != k_unknown_iteration; };
  const auto is_training = [&](const IterationOverlap& row) {
    return is_known(row) && row.iteration != k_init_iteration;
  };
  if (std::any_of(rows.begin(), rows.end(), is_training)) {
    std::erase_if(rows, std::not_fn(is_training));
  } else if (!std::all_of(rows.begin(), rows.end(), is_known)) {
    std::erase_if(rows, is_known);
  }
  return rows;
}

std::vector<OverlapTotal> overlap_by_rank(const std::vector<IterationOverlap>& rows) {
  std::map<RankRange, OverlapTotal> totals;
  for (const IterationOverlap& row : rows) {
    OverlapTotal& total = totals.try_emplace(row.ranks, nothing()).first->second;
    total.ranks = row.ranks;
    add(total, row.all, row, 1);
  }
  std::vector<OverlapTotal> result;
  for (const auto& [ranks, total] : totals) {
    result.push_back(total);
  }
  return result;
}

std::vector<OverlapTotal> overlap_by_op(const std::vector<IterationOverlap>& rows) {
  std::map<std::pair<CommKind, NameId>, OverlapTotal> totals;
  for (const IterationOverlap& row : rows) {
    for (const OpCommunication& op : row.ops) {
      OverlapTotal& total = totals.try_emplace({op.kind, op.name}, nothing()).first->second;
      total.kind = op.kind;
      total.name = op.name;
      add(total, op.time, row, row.ranks.count());
    }
  }
  return sorted(totals, rows);
}

std::vector<OverlapTotal> overlap_by_axis(const std::vector<IterationOverlap>& rows) {
  std::map<std::tuple<Axis, bool, std::int64_t>, OverlapTotal> totals;
  for (const IterationOverlap& row : rows) {
    for (const StreamCommunication& stream : row.streams) {
      const std::int64_t size = std::ssize(stream.members);
      OverlapTotal& total = totals.try_emplace({stream.axis, stream.is_pair, size}, nothing()).first->second;
      total.axis = stream.axis;
      total.is_pair = stream.is_pair;
      total.group_size = size;
      add(total, stream.time, row, row.ranks.count());
    }
  }
  return sorted(totals, rows);
}

OverlapTotals overlap_totals(const std::vector<IterationOverlap>& rows) {
  const std::vector<IterationOverlap> training = of_training(rows);
  OverlapTotals totals{.by_rank = overlap_by_rank(training),
                       .by_op = overlap_by_op(training),
                       .by_axis = overlap_by_axis(training)};
  totals.knows_exposed = std::any_of(training.begin(), training.end(),
                                     [](const IterationOverlap& row) { return row.all.exposed.has_value(); });
  if (std::none_of(training.begin(), training.end(), is_unknown)) {
    for (const IterationOverlap& row : rows) {
      totals.has_skipped |= is_unknown(row);
      const std::int64_t calls = saturating_product(row.all.calls, row.ranks.count());
      totals.skipped_calls = saturating_sum(totals.skipped_calls, is_unknown(row) ? calls : 0);
    }
  }
  return totals;
}

void merge(OverlapTotal& into, const OverlapTotal& from) {
  into.iterations += from.iterations;
  into.span = added(into.span, from.span, 1);
  into.time.calls = saturating_sum(into.time.calls, from.time.calls);
  into.time.sum = added(into.time.sum, from.time.sum, 1);
  into.time.total = added(into.time.total, from.time.total, 1);
  into.time.exposed = added(into.time.exposed, from.time.exposed, 1);
  into.time.overlapped = added(into.time.overlapped, from.time.overlapped, 1);
  into.compute = added(into.compute, from.compute, 1);
  into.idle = added(into.idle, from.idle, 1);
}

}  // namespace commlens
