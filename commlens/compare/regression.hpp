#pragma once
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "commlens/base/result.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens {

/// Statistic of the calls of one row in one iteration: the median or the 95th percentile (nearest rank).
enum class CallMetric : std::uint8_t { p50, p95 };

struct RegressionOptions {
  double tolerance = 0.05;     // slower by more than this share is too slow
  double significance = 0.01;  // probability of any false alarm in the whole table
  CallMetric metric = CallMetric::p50;
  bool may_lack_rows =
      false;  // rows that one side lacks are left out: calls that are not made in each iteration
};

/// The same calls in two runs, or the length of their steps.
///
/// A sample is one value per iteration: the metric over all calls of the row in it, of all ranks; of a step
/// the median over ranks of the time from the first call of an iteration to the first one of the next. Calls
/// of one iteration are not independent of each other (one late rank delays them all); iterations are nearly
/// independent.
struct RegressionRow {
  bool is_step = false;  // then kind, axis and phase mean nothing
  CommKind kind = CommKind::other;
  std::string name;  // kind `other` only
  Axis axis = Axis::unknown;
  Phase phase = Phase::other;
  std::int64_t calls = 0;         // of all ranks in one iteration; of a step 0
  std::int64_t iterations_a = 0;  // values in the sample of A
  std::int64_t iterations_b = 0;
  std::chrono::nanoseconds a{};  // median over iterations
  std::chrono::nanoseconds b{};
  double p = 1;            // Mann-Whitney (compare/significance.hpp), two-sided
  double p_adjusted = 1;   // Holm over the rows
  bool is_slower = false;  // B beyond the tolerance, and significant
  bool is_faster = false;  // A beyond the tolerance, and significant
  /// B over A; 1 when both take no time.
  double ratio() const;
};

/// Two runs of one job, compared in time.
struct Regression {
  RegressionOptions options;
  std::vector<RegressionRow> rows;     // the step first, then those that take most of A's time
  std::int64_t iterations_needed = 0;  // least iterations of each run for a significant row
  std::optional<bool> progress_a;      // Provenance::progress of the runs
  std::optional<bool> progress_b;
  bool any_slower() const;
  /// Whether every row has enough iterations to be significant.
  bool has_enough() const;
};

/// Rows per op, axis and phase, and the step. Initialisation and the first iteration of each run are skipped
/// because they are cold. Fails if a side has no times of single calls or no iteration after the first, and
/// if the runs are not of the same job: different numbers of ranks, or different calls or bytes (of
/// data-dependent calls: different calls) in a row of an iteration.
Result<Regression> regression(const Trace& a, const Trace& b, const RegressionOptions& options);

}  // namespace commlens
