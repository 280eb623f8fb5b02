#pragma once
#include <string>
#include <vector>

#include "commlens/app/bench_launch.hpp"
#include "commlens/base/result.hpp"

namespace commlens {

/// A row of two results: the medians of the launches of each.
struct BenchCheck {
  BenchKey key;
  double before_s = 0;  // the median of the medians
  double now_s = 0;
  double p = 1;
  double p_adjusted = 1;  // for all rows (Holm)
  bool is_slower = false;
  double ratio() const { return now_s / before_s; }
};

/// Compares the rows that both results have, by the medians of their launches: samples of one launch are no
/// independent measurements of another. A row is slower where p_adjusted < 0.01. Fails where a side has one
/// launch, or so few that no difference could be found, and where they have no row in common.
Result<std::vector<BenchCheck>> check_bench(const BenchRun& before, const BenchRun& now);

/// Fails as check_bench would for too few launches.
Result<void> check_launches(const std::string& what, std::int64_t launches);

}  // namespace commlens
