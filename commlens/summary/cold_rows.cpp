#include "commlens/summary/cold_rows.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

namespace commlens {
namespace {

using std::chrono::nanoseconds;

RowKey without_parts(RowKey key) {
  key.phase.reset();
  key.size.reset();
  key.site.reset();
  return key;
}

std::int64_t nanoseconds_of(const std::optional<TimeStats>& time) { return time ? time->total.count() : 0; }

std::vector<ColdRow> cold_rows(const CallTally& tally) {
  struct Sums {
    RowTally cold;
    RowTally warm;
  };
  std::map<RowKey, Sums> sums;
  for (const auto& [slice, tallies] : tally.slices()) {
    if (slice.stage != Stage::cold && slice.stage != Stage::warm) {
      continue;
    }
    for (const auto& [key, tallied] : tallies) {
      Sums& row = sums[without_parts(tally.keys()[key])];
      (slice.stage == Stage::cold ? row.cold : row.warm).merge(tallied);
    }
  }
  std::vector<ColdRow> rows;
  for (const auto& [key, sum] : sums) {
    rows.push_back({key.kind, key.name, key.axis, key.group_size, sum.cold.calls, sum.warm.calls,
                    sum.cold.message, sum.warm.message, sum.cold.time.stats(), sum.warm.time.stats()});
  }
  std::stable_sort(rows.begin(), rows.end(), [](const ColdRow& a, const ColdRow& b) {
    return std::tuple(-nanoseconds_of(a.cold), -a.cold_message.value) <
           std::tuple(-nanoseconds_of(b.cold), -b.cold_message.value);
  });
  return rows;
}

/// Calls of equal cost: kind, name, axis, group size (the key) and …
using AlikeKey = std::tuple<RowKey, GroupId, DType, std::int64_t, std::int64_t>;

std::vector<FirstCallRow> first_call_rows(const CallTally& tally, const Trace& tables) {
  std::map<AlikeKey, OpTally> alike;
  for (std::size_t op = 0; op < tally.ops().size(); ++op) {
    const OpTally& calls = tally.ops()[op];
    const OpFacts& facts = tally.facts()[op];
    const CommOp& what = tables.ops()[op];
    OpTally& sum = alike[{without_parts(tally.keys()[facts.row]), facts.group, what.dtype, what.input.value,
                          what.output.value}];
    sum.timed_calls = saturating_sum(sum.timed_calls, calls.timed_calls);
    sum.time = nanoseconds(saturating_sum(sum.time.count(), calls.time.count()));
    sum.first_timed = saturating_sum(sum.first_timed, calls.first_timed);
    sum.first_time = nanoseconds(saturating_sum(sum.first_time.count(), calls.first_time.count()));
  }
  std::map<RowKey, FirstCallRow> rows;
  for (const auto& [key, first] : tally.first_calls()) {
    rows[key] = {key.kind, key.name, key.axis, key.group_size, first.calls, first.time.stats(), 0, {}, {}};
  }
  for (const auto& [key, sum] : alike) {
    const std::int64_t later = sum.timed_calls - sum.first_timed;
    if (sum.first_timed == 0 || later <= 0) {
      continue;
    }
    FirstCallRow& row = rows.at(std::get<RowKey>(key));
    const double mean =
        static_cast<double>(sum.time.count() - sum.first_time.count()) / static_cast<double>(later);
    row.compared += sum.first_timed;
    row.compared_time += sum.first_time;
    row.later_time += nanoseconds(std::llround(mean * static_cast<double>(sum.first_timed)));
  }
  std::vector<FirstCallRow> sorted;
  for (const auto& [key, row] : rows) {
    sorted.push_back(row);
  }
  std::stable_sort(sorted.begin(), sorted.end(), [](const FirstCallRow& a, const FirstCallRow& b) {
    return a.compared_time - a.later_time > b.compared_time - b.later_time;
  });
  return sorted;
}

}  // namespace

ColdStart cold_start_of(const CallTally& tally, const Trace& tables) {
  ColdStart start;
  if (tally.cold_iterations().size() == 1) {
    start.cold_iteration = tally.cold_iterations().front();
  }
  start.cold_ranks = tally.cold_ranks();
  start.warm_iterations = tally.warm_iterations().size();
  start.rows = cold_rows(tally);
  start.first_calls = first_call_rows(tally, tables);
  return start;
}

}  // namespace commlens
