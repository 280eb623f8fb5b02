#include "commlens/summary/statistics.hpp"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "commlens/comm/volume.hpp"
#include "commlens/summary/call_tally.hpp"
#include "commlens/summary/cold_rows.hpp"
#include "commlens/summary/overlap.hpp"
#include "commlens/summary/running_union.hpp"

namespace commlens {
namespace {

Bytes wire_of(const RowKey& key, Bytes moved) {
  // Half the range is far beyond any job and leaves room for the factor 2.
  return wire_bytes(key.kind, std::min(moved, Bytes{INT64_MAX / 2}),
                    std::max<std::int64_t>(key.group_size, 1));
}

void set_bandwidths(SummaryRow& row, Bytes timed_moved) {
  const bool means_something = row.kind != CommKind::other && row.group_size != 1;
  if (!row.time || row.time->total.count() <= 0 || timed_moved.value <= 0 || !means_something) {
    return;
  }
  const double seconds = static_cast<double>(row.time->total.count()) / 1e9;
  row.algorithm_bandwidth = BytesPerSecond{static_cast<double>(timed_moved.value) / seconds};
  if (row.group_size > 1) {
    row.bus_bandwidth = BytesPerSecond{row.algorithm_bandwidth->value * bus_factor(row.kind, row.group_size)};
  }
}

SummaryRow row_of(const RowKey& key, std::optional<Iteration> iteration, const RowTally& tally) {
  SummaryRow row;
  row.kind = key.kind;
  row.name = key.name;
  row.axis = key.axis;
  row.group_size = key.group_size;
  row.phase = key.phase;
  row.iteration = iteration;
  row.site = key.site;
  row.calls = tally.calls;
  row.smallest = tally.smallest;
  row.largest = tally.largest;
  row.message = tally.message;
  row.wire = wire_of(key, tally.moved);
  for (const auto& [share, moved] : tally.crossing) {
    row.wire_inter_node =
        saturating_sum(row.wire_inter_node, part_of(wire_of(key, moved), {share.first, share.second}));
  }
  row.time = tally.time.stats();
  set_bandwidths(row, tally.timed_moved);
  return row;
}

auto op_and_group(const SummaryRow& row) { return std::tuple(row.kind, row.name, row.axis, row.group_size); }

void sort_rows(std::vector<SummaryRow>& rows) {
  std::map<decltype(op_and_group(SummaryRow{})), Bytes> message;  // of all rows of an op
  for (const SummaryRow& row : rows) {
    Bytes& sum = message[op_and_group(row)];
    sum = saturating_sum(sum, row.message);
  }
  const auto order = [&](const SummaryRow& row) {
    return std::tuple(-message.at(op_and_group(row)).value, op_and_group(row), row.iteration, row.phase,
                      row.site ? -row.message.value : 0, row.site, row.smallest);
  };
  std::sort(rows.begin(), rows.end(),
            [&](const SummaryRow& a, const SummaryRow& b) { return order(a) < order(b); });
}

std::vector<SummaryRow> rows_of(const CallTally& tally) {
  // Slices of one iteration (cold on one rank, warm on another) and, if not by iteration, all slices
  // together.
  std::map<std::pair<std::size_t, std::optional<Iteration>>, std::vector<const RowTally*>> parts;
  for (const auto& [slice, tallies] : tally.slices()) {
    for (const auto& [key, row] : tallies) {
      parts[{key, slice.iteration}].push_back(&row);
    }
  }
  std::vector<SummaryRow> rows;
  for (const auto& [place, row_parts] : parts) {
    const RowKey& key = tally.keys()[place.first];
    if (row_parts.size() == 1) {
      rows.push_back(row_of(key, place.second, *row_parts.front()));
      continue;
    }
    RowTally sum;  // of one row at a time: durations take room
    for (const RowTally* const part : row_parts) {
      sum.merge(*part);
    }
    rows.push_back(row_of(key, place.second, sum));
  }
  sort_rows(rows);
  return rows;
}

SizeHistogram sizes_of(const CallTally& tally) {
  HistogramBuilder histogram(tally.options().small_limit);
  for (std::size_t op = 0; op < tally.ops().size(); ++op) {
    const OpTally& calls = tally.ops()[op];
    const OpFacts& facts = tally.facts()[op];
    if (calls.calls > 0 && tally.keys()[facts.row].kind != CommKind::barrier) {
      histogram.add(facts.message, {.lower = {},
                                    .calls = calls.calls,
                                    .message = saturating_product(facts.message, calls.calls),
                                    .timed_calls = calls.timed_calls,
                                    .time = calls.time});
    }
  }
  return histogram.take();
}

std::int64_t skipped_for(const Provenance& provenance, std::string_view reason) {
  const auto found = provenance.skipped.find(std::string(reason));
  return found == provenance.skipped.end() ? 0 : found->second;
}

Coverage coverage_of(const CallTally& tally, const Provenance& provenance) {
  Coverage coverage;
  std::map<NameId, std::int64_t> unclassified;
  for (std::size_t op = 0; op < tally.ops().size(); ++op) {
    const OpTally& calls = tally.ops()[op];
    const RowKey& key = tally.keys()[tally.facts()[op].row];
    if (key.kind == CommKind::other && calls.calls > 0) {
      unclassified[key.name] = saturating_sum(unclassified[key.name], calls.calls);
    }
    if (tally.facts()[op].message == Bytes{0} && key.kind != CommKind::barrier) {
      coverage.without_bytes = saturating_sum(coverage.without_bytes, calls.calls);
    }
    coverage.without_times = saturating_sum(coverage.without_times, calls.calls - calls.timed_calls);
  }
  for (const auto& [slice, tallies] : tally.slices()) {
    for (const auto& [key, row] : tallies) {
      coverage.without_iteration =
          saturating_sum(coverage.without_iteration, slice.stage == Stage::unknown ? row.calls : 0);
    }
  }
  for (const auto& [name, calls] : unclassified) {
    coverage.unclassified.push_back({name, calls});
  }
  std::stable_sort(coverage.unclassified.begin(), coverage.unclassified.end(),
                   [](const UnclassifiedCalls& a, const UnclassifiedCalls& b) { return a.calls > b.calls; });
  coverage.unfinished = skipped_for(provenance, k_skipped_unfinished);
  for (const std::string_view reason :
       {k_skipped_disk_full, k_skipped_recorder_late, k_skipped_tables_full, k_skipped_no_memory}) {
    coverage.dropped = saturating_sum(coverage.dropped, skipped_for(provenance, reason));
  }
  coverage.skipped = provenance.skipped;
  coverage.assumed = provenance.assumed;
  coverage.averaged_times = provenance.averaged_times;
  return coverage;
}

std::optional<TimeStats> time_of_all(const CallTally& tally) {
  DurationStats all;
  for (const auto& [slice, tallies] : tally.slices()) {
    for (const auto& [key, row] : tallies) {
      all.merge(row.time);
    }
  }
  return all.stats();
}

/// Removes values that averages of several calls cannot have.
void keep_averages(Summary& summary) {
  for (SummaryRow& row : summary.rows) {
    row.time = row.time ? std::optional(row.time->sums_only()) : std::nullopt;
  }
  summary.time = summary.time ? std::optional(summary.time->sums_only()) : std::nullopt;
  summary.cold = {};
  summary.sizes.averaged_times = true;
}

}  // namespace

SummaryBuilder::SummaryBuilder(const SummaryOptions& options)
    : tally_(std::make_unique<CallTally>(options)) {}

SummaryBuilder::~SummaryBuilder() = default;

void SummaryBuilder::add(const CallBlock& block) { tally_->add(block); }

Summary SummaryBuilder::finish(const Trace& tables) {
  tally_->finish(tables);
  Summary summary;
  summary.rows = rows_of(*tally_);
  summary.sizes = sizes_of(*tally_);
  summary.cold = cold_start_of(*tally_, tables);
  summary.coverage = coverage_of(*tally_, tables.provenance);
  summary.iterations = tally_->iterations();
  summary.ranks = tally_->ranks();
  for (const SummaryRow& row : summary.rows) {
    summary.calls = saturating_sum(summary.calls, row.calls);
    summary.message = saturating_sum(summary.message, row.message);
    summary.wire = saturating_sum(summary.wire, row.wire);
    summary.calls_without_wire = saturating_sum(summary.calls_without_wire, row.knows_wire() ? 0 : row.calls);
  }
  summary.time = time_of_all(*tally_);
  if (summary.coverage.averaged_times) {
    keep_averages(summary);
  }
  return summary;
}

void add_computing(const CallSource& source, const SummaryOptions& options, Summary& summary) {
  const TimeSelection selection{options.iterations, options.rank};
  for (std::size_t row = 0; row < source.has_compute.size(); ++row) {
    const RankRange ranks = source.tables.streams[row].ranks;
    if (!source.has_compute[row] || (options.rank && !ranks.contains(*options.rank))) {
      continue;
    }
    RunningUnion intervals;  // ascending by start, so it is exact
    bool has_intervals = false;
    StreamCursor cursor{row};
    for (bool has_more = true; has_more;) {
      const std::span<const ComputeInterval> some = source.compute(cursor);
      has_more = !some.empty();
      for (const ComputeInterval& interval : some) {
        if (selects(selection, interval.iteration)) {
          has_intervals = true;
          intervals.add(occupied({.issued = {}, .started = interval.started, .finished = interval.finished}));
        }
      }
    }
    const std::int64_t alike = !has_intervals ? 0 : options.rank ? 1 : ranks.count();
    summary.computing_ranks += alike;
    summary.computing = std::chrono::nanoseconds(
        saturating_sum(summary.computing.count(), saturating_product(intervals.take().count(), alike)));
  }
}

Summary summarise(const Trace& trace, const SummaryOptions& options) {
  SummaryBuilder builder(options);
  visit_calls(trace, [&](const CallBlock& block) { builder.add(block); });
  Summary summary = builder.finish(trace);
  add_computing(call_source(trace), options, summary);
  return summary;
}

std::vector<SummaryRow> summary_rows(const Trace& trace, const SummaryOptions& options) {
  return summarise(trace, options).rows;
}

}  // namespace commlens
