#include "commlens/app/bench_regression.hpp"

#include <algorithm>
#include <map>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "commlens/app/bench_bursts.hpp"
#include "commlens/app/launch_bursts.hpp"
#include "commlens/bench/median.hpp"
#include "commlens/compare/significance.hpp"

namespace commlens {
namespace {

constexpr SlowerLimits k_limits;
constexpr std::int64_t k_fewest_launches = 6;  // of each: 6 against 6 give p = 0.002 at best

/// The medians of each row in each burst.
std::vector<std::map<BenchKey, double>> medians_of_bursts(const BenchRun& run) {
  std::vector<std::map<BenchKey, double>> medians;
  for (const std::vector<const BenchLaunch*>& burst : bursts_of(run)) {
    std::map<BenchKey, std::vector<double>> of_burst;
    for (const BenchLaunch* const launch : burst) {
      for (const BenchLaunchRow& row : launch->rows) {
        of_burst[row.key].push_back(row.stats.p50_s);
      }
    }
    std::map<BenchKey, double>& added = medians.emplace_back();
    for (const auto& [key, of_launches] : of_burst) {
      added.emplace(key, bench::quantile(of_launches, 0.5));
    }
  }
  return medians;
}

std::map<BenchKey, std::vector<double>> medians_of(const BenchRun& run) {
  std::map<BenchKey, std::vector<double>> medians;
  for (const std::map<BenchKey, double>& burst : medians_of_bursts(run)) {
    for (const auto& [key, median] : burst) {
      medians[key].push_back(median);
    }
  }
  return medians;
}

std::int64_t independent_launches(const BenchRun& run) {
  return static_cast<std::int64_t>(bursts_of(run).size());
}

std::int64_t launches_of(const std::map<BenchKey, std::vector<double>>& medians, const BenchKey& key) {
  const auto found = medians.find(key);
  return found == medians.end() ? 0 : static_cast<std::int64_t>(found->second.size());
}

/// Of the row that has the fewest.
std::int64_t fewest_launches(const BenchRun& run, const std::vector<BenchKey>& keys) {
  const std::map<BenchKey, std::vector<double>> medians = medians_of(run);
  std::int64_t fewest = launches_of(medians, keys.front());
  for (const BenchKey& key : keys) {
    fewest = std::min(fewest, launches_of(medians, key));
  }
  return fewest;
}

/// The rows that are compared.
std::vector<BenchKey> compared_keys(const BenchRun& now) {
  std::vector<BenchKey> keys;
  for (const BenchPlanRow& row : now.planned) {
    keys.push_back(row.key);
  }
  if (keys.empty()) {
    for (const auto& [key, medians] : medians_of(now)) {
      keys.push_back(key);
    }
  }
  return keys;
}

std::string text_of(const BenchKey& key) {
  return fmt::format("{} of {} ({}, {}{}{})", key.op, to_text(Bytes{key.bytes}), key.dtype, key.group,
                     key.group_size > 0 ? fmt::format(" of {} ranks", key.group_size) : "",
                     key.in_place ? ", in place" : "");
}

/// "A, B, C and 2 more".
std::string listed_rows(const std::vector<std::string>& texts) {
  constexpr std::size_t k_most = 3;
  const std::size_t shown = std::min(texts.size(), k_most);
  const std::string first =
      fmt::format("{}", fmt::join(texts.begin(), texts.begin() + std::ptrdiff_t(shown), ", "));
  return shown == texts.size() ? first : fmt::format("{} and {} more", first, texts.size() - shown);
}

/// One result of two that are to be compared, and what stands against it.
struct ComparedResult {
  std::string name;
  const BenchRun& run;
  std::int64_t more = 0;       // launches that it is to have besides
  bool may_lack_rows = false;  // which is said elsewhere

  std::int64_t launches() const { return independent_launches(run) + more; }
};

std::string launches_text(const std::string& what, std::int64_t launches) {
  return fmt::format("{} has {} launch{}", what, launches, launches == 1 ? "" : "es");
}

/// Which rows, or the result as a whole, have too few launches. Those of one moment are said by
/// burst_obstacle().
void add_few_launches(std::vector<std::string>& few, const ComparedResult& result,
                      const std::vector<BenchKey>& keys) {
  if (result.launches() < k_fewest_launches) {
    few.push_back(launches_text(result.name, result.launches()));
    return;
  }
  const std::map<BenchKey, std::vector<double>> medians = medians_of(result.run);
  for (const BenchKey& key : keys) {
    const std::int64_t launches = launches_of(medians, key) + result.more;
    if (launches < k_fewest_launches && !(launches == 0 && result.may_lack_rows)) {
      few.push_back(launches_text(fmt::format("{} of {}", text_of(key), result.name), launches));
    }
  }
}

/// Why a result with enough launches makes too few independent ones; empty: it does not.
std::string burst_obstacle(const ComparedResult& result) {
  const std::int64_t whole = std::count_if(result.run.launches.begin(), result.run.launches.end(),
                                           [](const BenchLaunch& launch) { return !launch.is_partial; }) +
                             result.more;
  return whole < k_fewest_launches || result.launches() >= k_fewest_launches
             ? std::string()
             : fmt::format(
                   "the {} launches of {} count as {}: those that begin within {} ms of another share "
                   "one state of the machine; measure with --launch-every 500ms",
                   whole, result.name, result.launches(), k_least_launch_distance.count());
}

/// The rows of each op.
std::map<std::string, RowFamily> families_of(const std::vector<BenchKey>& keys) {
  std::map<std::string, RowFamily> families;
  for (std::size_t row = 0; row < keys.size(); ++row) {
    families[keys[row].op].push_back(row);
  }
  return families;
}

std::vector<RowFamily> listed(const std::map<std::string, RowFamily>& families) {
  std::vector<RowFamily> list;
  for (const auto& [op, rows] : families) {
    list.push_back(rows);
  }
  return list;
}

/// How many tests the comparison of these rows makes.
std::size_t tests_of(const std::vector<BenchKey>& keys) {
  const std::vector<RowFamily> families = listed(families_of(keys));
  const auto related = std::count_if(families.begin(), families.end(),
                                     [&](const RowFamily& family) { return is_related(family, families); });
  return keys.size() >= k_fewest_rows_to_relate ? keys.size() + static_cast<std::size_t>(related) + 1
                                                : keys.size();
}

/// Why no test of these rows could be significant with these launches; empty: one could.
std::string power_obstacle(std::int64_t before, std::int64_t now, const std::vector<BenchKey>& keys) {
  return smallest_exact_p(before, now) * static_cast<double>(tests_of(keys)) < k_limits.significance
             ? std::string()
             : fmt::format(
                   "{} against {} launches cannot show a difference of one of {} rows; 10 of each can: "
                   "--launches 10, over MPI --append FILE in each of 10 jobs",
                   before, now, keys.size());
}

std::string difference_between(const BenchRun& earlier, const BenchRun& now) {
  return earlier.transport == now.transport && earlier.ranks == now.ranks && earlier.is_cold == now.is_cold
             ? std::string()
             : fmt::format(
                   "holds {} ranks over {} with {} buffers, and this job has {} over {} with {} ones; "
                   "choose another file",
                   earlier.ranks, earlier.transport, earlier.is_cold ? "cold" : "hot", now.ranks,
                   now.transport, now.is_cold ? "cold" : "hot");
}

/// The rows of `keys` in each independent launch.
std::vector<LaunchTimes> launch_times(const BenchRun& run, const std::vector<BenchKey>& keys) {
  std::vector<LaunchTimes> launches;
  for (const std::map<BenchKey, double>& burst : medians_of_bursts(run)) {
    LaunchTimes& times = launches.emplace_back();
    for (const BenchKey& key : keys) {
      const auto found = burst.find(key);
      times.push_back(found == burst.end() ? std::nullopt : std::optional(found->second));
    }
  }
  return launches;
}

double median_ratio(const std::vector<BenchCheck>& checks, const std::string& op) {
  std::vector<double> ratios;
  for (const BenchCheck& check : checks) {
    if (check.key.op == op) {
      ratios.push_back(check.ratio());
    }
  }
  return bench::quantile(ratios, 0.5);
}

/// Rows by the other rows of their launches.
void relate_rows(BenchComparison& comparison, const BenchRun& before, const BenchRun& now) {
  std::vector<BenchKey> keys;
  for (const BenchCheck& check : comparison.rows) {
    keys.push_back(check.key);
  }
  const std::map<std::string, RowFamily> of_ops = families_of(keys);
  const std::vector<RowFamily> families = listed(of_ops);
  const LaunchShifts shifts =
      launch_shifts(launch_times(before, keys), launch_times(now, keys), families, k_limits);
  std::size_t place = 0;
  for (const auto& [op, rows] : of_ops) {
    if (const std::optional<LaunchShift>& shift = shifts.families[place++]) {
      comparison.ops.push_back({op, std::ssize(rows), median_ratio(comparison.rows, op), *shift});
    }
  }
  for (std::size_t row = 0; row < keys.size(); ++row) {
    const LaunchShift& shift = shifts.relative[row];
    BenchCheck& check = comparison.rows[row];
    check.relative_ratio = shift.ratio;
    check.p = shift.p;
    check.p_adjusted = shift.p_adjusted;
    check.is_slower = shift.is_slower;
  }
  comparison.all = shifts.all;
}

/// Rows by their times.
void adjust_rows(BenchComparison& comparison) {
  std::vector<double> p_values;
  for (const BenchCheck& check : comparison.rows) {
    p_values.push_back(check.p);
  }
  const std::vector<double> adjusted = holm_adjusted(p_values);
  for (std::size_t row = 0; row < adjusted.size(); ++row) {
    BenchCheck& check = comparison.rows[row];
    check.p_adjusted = adjusted[row];
    check.is_slower = adjusted[row] < k_limits.significance && check.ratio() > k_limits.least_ratio;
  }
}

}  // namespace

bool BenchComparison::is_slower() const {
  return (all && all->is_slower) ||
         std::any_of(ops.begin(), ops.end(), [](const BenchOpCheck& op) { return op.shift.is_slower; }) ||
         std::any_of(rows.begin(), rows.end(), [](const BenchCheck& check) { return check.is_slower; });
}

Result<void> check_comparable(const std::string& what, const BenchRun& earlier, const BenchRun& now) {
  const std::string difference = difference_between(earlier, now);
  return difference.empty() ? Result<void>() : failure(fmt::format("{}: {}", what, difference));
}

Result<void> check_can_append(const std::string& file, const BenchRun& earlier, const BenchRun& now) {
  const auto text = [](const BenchRun& run) {
    return run.table.empty() ? std::string("no table of transports") : "the table " + run.table;
  };
  return check_comparable("--append " + file, earlier, now).and_then([&]() -> Result<void> {
    return earlier.table == now.table
               ? Result<void>()
               : failure(fmt::format(
                     "--append {}: holds launches with {}, and this job has {}; choose another file", file,
                     text(earlier), text(now)));
  });
}

Result<void> check_can_compare(const std::string& name, const BenchRun& before, const BenchRun& now,
                               std::int64_t more) {
  const std::vector<BenchKey> keys = compared_keys(now);
  if (keys.empty()) {
    return failure("--check: this result has no rows");
  }
  std::vector<std::string> obstacles;
  const auto add = [&](const std::string& obstacle) {
    if (!obstacle.empty()) {
      obstacles.push_back(obstacle);
    }
  };
  if (const std::string difference = difference_between(before, now); !difference.empty()) {
    add(fmt::format("{} {}", name, difference));
  }
  const std::map<BenchKey, std::vector<double>> earlier = medians_of(before);
  std::vector<std::string> missing;
  for (const BenchKey& key : keys) {
    if (!earlier.contains(key) && !earlier.empty()) {
      missing.push_back(text_of(key));
    }
  }
  if (!missing.empty()) {
    add(fmt::format("{} has no {}; time the calls that it has, or measure it anew", name,
                    listed_rows(missing)));
  }
  std::vector<std::string> few;
  for (const ComparedResult& result :
       {ComparedResult{name, before, 0, true}, ComparedResult{"this result", now, more}}) {
    const std::string burst = burst_obstacle(result);
    add(burst);
    if (burst.empty()) {
      add_few_launches(few, result, keys);
    }
  }
  if (!few.empty()) {
    add(
        fmt::format("{}, and launches differ by themselves; {} of each result are the least, 10 find 15 %: "
                    "--launches 10, over MPI --append FILE in each of 10 jobs",
                    listed_rows(few), k_fewest_launches));
  }
  if (obstacles.empty()) {
    add(power_obstacle(fewest_launches(before, keys), fewest_launches(now, keys) + more, keys));
  }
  return obstacles.empty() ? Result<void>() : failure(fmt::format("--check: {}", fmt::join(obstacles, "; ")));
}

Result<BenchComparison> check_bench(const BenchRun& before, const BenchRun& now) {
  return check_can_compare("the earlier result", before, now, 0).map([&] {
    const std::map<BenchKey, std::vector<double>> earlier = medians_of(before);
    const std::map<BenchKey, std::vector<double>> later = medians_of(now);
    BenchComparison comparison;
    for (const BenchKey& key : compared_keys(now)) {
      comparison.rows.push_back({.key = key,
                                 .before_s = bench::quantile(earlier.at(key), 0.5),
                                 .now_s = bench::quantile(later.at(key), 0.5),
                                 .relative_ratio = {},
                                 .p = exact_p(earlier.at(key), later.at(key))});
    }
    if (comparison.rows.size() >= k_fewest_rows_to_relate) {
      relate_rows(comparison, before, now);
    } else {
      adjust_rows(comparison);
    }
    return comparison;
  });
}

}  // namespace commlens
