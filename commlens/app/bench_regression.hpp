#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "commlens/app/bench_launch.hpp"
#include "commlens/base/result.hpp"
#include "commlens/compare/launch_shift.hpp"

namespace commlens {

/// A row of two results.
struct BenchCheck {
  BenchKey key;
  double before_s = 0;  // the median of the medians of the launches
  double now_s = 0;
  /// Now over before, less what the speed of the launches explains (launch_shifts()); absent of few rows.
  std::optional<double> relative_ratio;
  double p = 1;           // of the relative ratio, where there is one, else of the two medians
  double p_adjusted = 1;  // for all tests of the comparison (Holm)
  bool is_slower = false;
  double ratio() const { return now_s / before_s; }
};

/// The rows of one op together, against those of each other op.
struct BenchOpCheck {
  std::string op;
  std::int64_t rows = 0;
  double ratio = 0;  // the median of those of its rows
  LaunchShift shift;
};

struct BenchComparison {
  std::vector<BenchCheck> rows;
  std::vector<BenchOpCheck> ops;   // of several rows, where there are two others or more
  std::optional<LaunchShift> all;  // rows together; absent of few rows: then each row stands for itself
  bool is_slower() const;
};

/// Compares the rows of `now` (of its plan, where it has one) with those of `before`, by the medians of their
/// whole launches: samples of one launch are no independent measurements of another, nor are launches of one
/// burst (bursts_of()), whose median counts. Launches of one program take one of several speeds, up to twice
/// apart, which is common to their rows; from four rows on, a row is therefore compared with the other rows
/// of its launches, so are the rows of one op together, and the speed of the launches by itself
/// (launch_shifts()). Of fewer rows each is compared by its times. Slower is what has p_adjusted < 0.01 and a
/// ratio above those of SlowerLimits. Fails as check_can_compare().
Result<BenchComparison> check_bench(const BenchRun& before, const BenchRun& now);

/// Whether check_bench() can say something once `now` has `more` independent launches. Fails where the two
/// differ in what all their rows depend on, where `before` lacks rows, and where rows have so few launches
/// that no difference could be found; the message has all of these. `name`: the earlier result, for messages.
Result<void> check_can_compare(const std::string& name, const BenchRun& before, const BenchRun& now,
                               std::int64_t more);

/// Whether launches of `now` belong with those of `earlier`, of a file. Fails as check_comparable(), and
/// where one is over a table of algorithms and the other is not, or over another one.
Result<void> check_can_append(const std::string& file, const BenchRun& earlier, const BenchRun& now);

/// Fails where ranks, transport or the state of the buffers differ; `what`: "--append FILE".
Result<void> check_comparable(const std::string& what, const BenchRun& earlier, const BenchRun& now);

}  // namespace commlens
