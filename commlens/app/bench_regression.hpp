#pragma once
#include <cstdint>
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

/// Compares the rows of `now` (of its plan, where it has one) with those of `before`, by the medians of their
/// whole launches: samples of one launch are no independent measurements of another, nor are launches of one
/// burst (bursts_of()), whose median counts. A row is slower where p_adjusted < 0.01 and the ratio is above
/// 1.05. Fails as check_can_compare().
Result<std::vector<BenchCheck>> check_bench(const BenchRun& before, const BenchRun& now);

/// Whether check_bench() can say something once `now` has `more` independent launches. Fails where the two
/// differ in what all their rows depend on, where `before` lacks a row, and where a row has so few launches
/// that no difference could be found. `name`: the earlier result, for messages.
Result<void> check_can_compare(const std::string& name, const BenchRun& before, const BenchRun& now,
                               std::int64_t more);

/// Whether launches of `now` belong with those of `earlier`, of a file. Fails as check_comparable(), and
/// where one is over a table of algorithms and the other is not, or over another one.
Result<void> check_can_append(const std::string& file, const BenchRun& earlier, const BenchRun& now);

/// Fails where ranks, transport or the state of the buffers differ; `what`: "--append FILE".
Result<void> check_comparable(const std::string& what, const BenchRun& earlier, const BenchRun& now);

}  // namespace commlens
