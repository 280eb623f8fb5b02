#include "commlens/app/bench_regression.hpp"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "commlens/bench/median.hpp"
#include "commlens/compare/significance.hpp"

namespace commlens {
namespace {

constexpr double k_significance = 0.01;
constexpr std::int64_t k_fewest_launches = 6;  // of each: 6 against 6 give p = 0.005 at best

std::map<BenchKey, std::vector<double>> medians_of(const BenchRun& run) {
  std::map<BenchKey, std::vector<double>> medians;
  for (const BenchLaunch& launch : run.launches) {
    for (const BenchLaunchRow& row : launch.rows) {
      if (!launch.is_partial) {
        medians[row.key].push_back(row.stats.p50_s);
      }
    }
  }
  return medians;
}

std::int64_t whole_launches(const BenchRun& run) {
  return std::count_if(run.launches.begin(), run.launches.end(),
                       [](const BenchLaunch& launch) { return !launch.is_partial; });
}

}  // namespace

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

Result<std::vector<BenchCheck>> check_bench(const BenchRun& before, const BenchRun& now) {
  const Result<void> enough = check_launches("the earlier result", whole_launches(before)).and_then([&] {
    return check_launches("this result", whole_launches(now));
  });
  if (!enough) {
    return tl::unexpected(enough.error());
  }
  const std::map<BenchKey, std::vector<double>> earlier = medians_of(before);
  std::vector<BenchCheck> checks;
  std::vector<double> p_values;
  for (const auto& [key, medians] : medians_of(now)) {
    const auto found = earlier.find(key);
    if (found == earlier.end()) {
      continue;
    }
    const RankSumTest test = mann_whitney(found->second, medians);
    checks.push_back(
        {key, bench::quantile(found->second, 0.5), bench::quantile(medians, 0.5), test.p, 1, false});
    p_values.push_back(test.p);
  }
  const double best_p = smallest_p(whole_launches(before), whole_launches(now));
  if (best_p * static_cast<double>(checks.size()) >= k_significance) {
    return failure(
        fmt::format("--check: {} against {} launches cannot show a difference of one of {} rows; 10 of "
                    "each can: --launches 10, over MPI --append FILE in each of 10 jobs",
                    whole_launches(before), whole_launches(now), checks.size()));
  }
  const std::vector<double> adjusted = holm_adjusted(p_values);
  for (std::size_t place = 0; place < checks.size(); ++place) {
    checks[place].p_adjusted = adjusted[place];
    checks[place].is_slower =
        adjusted[place] < k_significance && checks[place].now_s > checks[place].before_s;
  }
  return checks.empty() ? Result<std::vector<BenchCheck>>(failure(
                              "--check: the earlier result has none of these rows; time the same calls"))
                        : Result<std::vector<BenchCheck>>(std::move(checks));
}

}  // namespace commlens
