#include "commlens/app/bench_regression.hpp"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "commlens/app/bench_bursts.hpp"
#include "commlens/bench/median.hpp"
#include "commlens/compare/significance.hpp"

namespace commlens {
namespace {

constexpr double k_significance = 0.01;
constexpr double k_least_ratio = 1.05;  // the state of a machine shifts by less, and stays so for a while
constexpr std::int64_t k_fewest_launches = 6;  // of each: 6 against 6 give p = 0.005 at best

std::map<BenchKey, std::vector<double>> medians_of(const BenchRun& run) {
  std::map<BenchKey, std::vector<double>> medians;
  for (const std::vector<const BenchLaunch*>& burst : bursts_of(run)) {
    std::map<BenchKey, std::vector<double>> of_burst;
    for (const BenchLaunch* const launch : burst) {
      for (const BenchLaunchRow& row : launch->rows) {
        of_burst[row.key].push_back(row.stats.p50_s);
      }
    }
    for (const auto& [key, of_launches] : of_burst) {
      medians[key].push_back(bench::quantile(of_launches, 0.5));
    }
  }
  return medians;
}

std::int64_t independent_launches(const BenchRun& run) {
  return static_cast<std::int64_t>(bursts_of(run).size());
}

/// Fails where a result has enough launches, and they make too few independent ones.
Result<void> check_bursts(const std::string& what, const BenchRun& run, std::int64_t more) {
  const std::int64_t whole = std::count_if(run.launches.begin(), run.launches.end(),
                                           [](const BenchLaunch& launch) { return !launch.is_partial; });
  const std::int64_t independent = independent_launches(run);
  if (whole + more < k_fewest_launches || independent + more >= k_fewest_launches) {
    return {};
  }
  return failure(
      fmt::format("--check: the {} launches of {} count as {}: those that begin within {} ms of another "
                  "share one state of "
                  "the machine; measure with --launch-every 500ms",
                  whole + more, what, independent + more, k_least_launch_distance.count()));
}

std::int64_t launches_of(const std::map<BenchKey, std::vector<double>>& medians, const BenchKey& key) {
  const auto found = medians.find(key);
  return found == medians.end() ? 0 : static_cast<std::int64_t>(found->second.size());
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

Result<void> check_launches(const std::string& what, std::int64_t launches) {
  if (launches >= k_fewest_launches) {
    return {};
  }
  return failure(
      fmt::format("--check: {} has {} launch{}, and launches differ by themselves; {} of each result are the "
                  "least, 10 find "
                  "15 %: --launches 10, over MPI --append FILE in each of 10 jobs",
                  what, launches, launches == 1 ? "" : "es", k_fewest_launches));
}

/// Fails where no test of so many rows could be significant with these launches.
Result<void> check_power(std::int64_t before, std::int64_t now, std::size_t rows) {
  if (smallest_p(before, now) * static_cast<double>(rows) < k_significance) {
    return {};
  }
  return failure(
      fmt::format("--check: {} against {} launches cannot show a difference of one of {} rows; 10 of "
                  "each can: --launches 10, over MPI --append FILE in each of 10 jobs",
                  before, now, rows));
}

}  // namespace

Result<void> check_comparable(const std::string& what, const BenchRun& earlier, const BenchRun& now) {
  if (earlier.transport == now.transport && earlier.ranks == now.ranks && earlier.is_cold == now.is_cold) {
    return {};
  }
  return failure(
      fmt::format("{}: holds {} ranks over {} with {} buffers, and this job has {} over {} "
                  "with {} ones; choose another file",
                  what, earlier.ranks, earlier.transport, earlier.is_cold ? "cold" : "hot", now.ranks,
                  now.transport, now.is_cold ? "cold" : "hot"));
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
  const Result<void> alike =
      check_comparable("--check " + name, before, now)
          .and_then([&] { return check_bursts(name, before, 0); })
          .and_then([&] { return check_launches(name, independent_launches(before)); })
          .and_then([&] { return check_bursts("this result", now, more); })
          .and_then([&] { return check_launches("this result", independent_launches(now) + more); });
  if (!alike) {
    return alike;
  }
  const std::map<BenchKey, std::vector<double>> earlier = medians_of(before);
  const std::map<BenchKey, std::vector<double>> later = medians_of(now);
  const std::vector<BenchKey> keys = compared_keys(now);
  for (const BenchKey& key : keys) {
    const std::int64_t launches = launches_of(earlier, key);
    if (launches == 0) {
      return failure(fmt::format("--check: {} has no {}; time the calls that it has, or measure it anew",
                                 name, text_of(key)));
    }
    const std::int64_t launches_now = launches_of(later, key) + more;
    const Result<void> enough =
        check_launches(fmt::format("{} of {}", text_of(key), name), launches)
            .and_then(
                [&] { return check_launches(fmt::format("{} of this result", text_of(key)), launches_now); })
            .and_then([&] { return check_power(launches, launches_now, keys.size()); });
    if (!enough) {
      return enough;
    }
  }
  return keys.empty() ? failure("--check: this result has no rows") : Result<void>();
}

Result<std::vector<BenchCheck>> check_bench(const BenchRun& before, const BenchRun& now) {
  return check_can_compare("the earlier result", before, now, 0).map([&] {
    const std::map<BenchKey, std::vector<double>> earlier = medians_of(before);
    const std::map<BenchKey, std::vector<double>> later = medians_of(now);
    std::vector<BenchCheck> checks;
    std::vector<double> p_values;
    for (const BenchKey& key : compared_keys(now)) {
      const double p = mann_whitney(earlier.at(key), later.at(key)).p;
      checks.push_back(
          {key, bench::quantile(earlier.at(key), 0.5), bench::quantile(later.at(key), 0.5), p, 1, false});
      p_values.push_back(p);
    }
    const std::vector<double> adjusted = holm_adjusted(p_values);
    for (std::size_t place = 0; place < checks.size(); ++place) {
      checks[place].p_adjusted = adjusted[place];
      checks[place].is_slower = adjusted[place] < k_significance && checks[place].ratio() > k_least_ratio;
    }
    return checks;
  });
}

}  // namespace commlens
