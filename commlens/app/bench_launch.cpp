#include "commlens/app/bench_launch.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>

#include "commlens/bench/bench_op.hpp"
#include "commlens/bench/median.hpp"

namespace commlens {
namespace {

double median_of_launches(const std::vector<double>& values) { return bench::quantile(values, 0.5); }

/// The median over launches of a figure that all have, or that some have.
template <typename Figure>
std::optional<double> typical(const std::vector<const BenchLaunchRow*>& rows, const Figure& figure) {
  std::vector<double> values;
  for (const BenchLaunchRow* const row : rows) {
    if (const std::optional<double> value = figure(*row)) {
      values.push_back(*value);
    }
  }
  return values.empty() ? std::nullopt : std::optional(median_of_launches(values));
}

void add_flags(std::vector<bench::RowFlag>& flags, const std::vector<bench::RowFlag>& more) {
  for (const bench::RowFlag flag : more) {
    if (std::find(flags.begin(), flags.end(), flag) == flags.end()) {
      flags.push_back(flag);
    }
  }
}

bench::RowStats stats_of_launches(const std::vector<const BenchLaunchRow*>& rows) {
  if (rows.size() == 1) {
    return rows.front()->stats;
  }
  bench::RowStats stats;
  std::vector<double> medians;
  stats.min_s = rows.front()->stats.min_s;
  for (const BenchLaunchRow* const row : rows) {
    medians.push_back(row->stats.p50_s);
    stats.samples += row->stats.samples;
    stats.min_s = std::min(stats.min_s, row->stats.min_s);
    add_flags(stats.flags, row->stats.flags);
  }
  stats.p50_s = median_of_launches(medians);
  stats.low_s = *std::min_element(medians.begin(), medians.end());
  stats.high_s = *std::max_element(medians.begin(), medians.end());
  stats.mean_s = typical(rows, [](const auto& row) { return std::optional(row.stats.mean_s); }).value_or(0);
  stats.p95_s = typical(rows, [](const auto& row) { return row.stats.p95_s; });
  stats.p99_s = typical(rows, [](const auto& row) { return row.stats.p99_s; });
  stats.skew_s = typical(rows, [](const auto& row) { return std::optional(row.stats.skew_s); }).value_or(0);
  stats.first_s = typical(rows, [](const auto& row) { return std::optional(row.stats.first_s); }).value_or(0);
  return stats;
}

BenchRow combined_row(const BenchKey& key, const std::vector<const BenchLaunchRow*>& rows) {
  BenchRow row;
  row.key = key;
  row.launches = static_cast<std::int64_t>(rows.size());
  row.stats = stats_of_launches(rows);
  row.back_to_back_s = typical(rows, [](const auto& each) { return each.back_to_back_s; });
  for (const BenchLaunchRow* const each : rows) {
    if (each->wrong_elements) {
      row.wrong_elements = row.wrong_elements.value_or(0) + *each->wrong_elements;
      row.wrong = row.wrong.empty() ? each->wrong : row.wrong;
    }
  }
  return row;
}

/// As files have it, so that what is read back is what was measured.
double whole_ns(double seconds) { return static_cast<double>(std::llround(seconds * 1e9)) * 1e-9; }

bench::RowStats in_whole_ns(bench::RowStats stats) {
  for (double* const time : {&stats.p50_s, &stats.min_s, &stats.mean_s, &stats.skew_s, &stats.first_s}) {
    *time = whole_ns(*time);
  }
  for (std::optional<double>* const time : {&stats.low_s, &stats.high_s, &stats.p95_s, &stats.p99_s}) {
    if (*time) {
      *time = whole_ns(**time);
    }
  }
  stats.p50_s = std::max(stats.p50_s, 1e-9);  // the files' unit: a median of none would be no time
  return stats;
}

}  // namespace

std::optional<double> BenchRow::algorithm_bandwidth() const {
  return key.bytes > 0 && key.group_size > 0 && stats.p50_s > 0
             ? std::optional(static_cast<double>(key.bytes) / stats.p50_s)
             : std::nullopt;
}

std::optional<double> BenchRow::bus_bandwidth() const {
  const std::optional<double> bandwidth = algorithm_bandwidth();
  const std::optional<bench::BenchOp> op = bench::bench_op_from(key.op);
  return bandwidth && op ? std::optional(*bandwidth * bench::bus_factor_of(*op, key.group_size))
                         : std::nullopt;
}

std::vector<BenchRow> combined_rows(const BenchRun& run) {
  std::vector<BenchKey> order;
  std::map<BenchKey, std::vector<const BenchLaunchRow*>> found;
  for (const BenchPlanRow& planned : run.planned) {
    order.push_back(planned.key);
    found[planned.key];
  }
  for (const BenchLaunch& launch : run.launches) {
    for (const BenchLaunchRow& row : launch.rows) {
      const auto [place, is_new] = found.try_emplace(row.key);
      place->second.push_back(&row);
      if (is_new) {
        order.push_back(row.key);
      }
    }
  }
  std::vector<BenchRow> rows;
  for (std::size_t place = 0; place < order.size(); ++place) {
    const std::vector<const BenchLaunchRow*>& of_key = found.at(order[place]);
    if (of_key.empty()) {
      continue;
    }
    BenchRow row = combined_row(order[place], of_key);
    if (place < run.planned.size()) {
      row.calls = run.planned[place].calls;
      row.calls_all_ranks = run.planned[place].calls_all_ranks;
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

std::optional<BenchStep> step_of(const BenchRun& run) {
  std::map<BenchKey, double> p50;
  for (const BenchRow& row : combined_rows(run)) {
    p50.emplace(row.key, row.stats.p50_s);
  }
  std::optional<BenchStep> most;
  for (std::size_t place = 0; place < run.classes.size(); ++place) {
    BenchStep step{0, run.classes[place]};
    for (const BenchPlanRow& row : run.planned) {
      const auto time = p50.find(row.key);
      step.total_s +=
          time == p50.end() ? 0 : time->second * static_cast<double>(row.calls_of_class.at(place));
    }
    if (!most || step.total_s > most->total_s) {
      most = step;
    }
  }
  return most;
}

BenchLaunch launch_of(const BenchPlan& plan, const bench::Measured& measured, const BenchLaunch& begun,
                      bool is_oversubscribed) {
  BenchLaunch launch{begun.seed, begun.began_ns, measured.clock_error_s, measured.is_partial, {}};
  for (std::size_t place = 0; place < measured.rows.size(); ++place) {
    const bench::MeasuredRow& row = measured.rows[place];
    if (row.one.span_s.empty()) {
      continue;
    }
    BenchLaunchRow& added = launch.rows.emplace_back();
    added.key = plan.rows.at(place).key;
    added.stats =
        in_whole_ns(bench::stats_of(row.one, {measured.clock_error_s, is_oversubscribed, row.messages}));
    if (plan.rows[place].assumes_parts) {
      added.stats.flags.push_back(bench::RowFlag::assumed_parts);
    }
    if (!row.back_to_back_s.empty()) {
      added.back_to_back_s = whole_ns(bench::quantile(row.back_to_back_s, 0.5));
    }
    if (plan.measured.verifies && !measured.is_partial) {
      added.wrong_elements = row.wrong_elements;
      added.wrong = row.wrong;
    }
  }
  return launch;
}

}  // namespace commlens
