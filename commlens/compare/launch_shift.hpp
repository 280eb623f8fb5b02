#pragma once
#include <optional>
#include <span>
#include <vector>

namespace commlens {

/// Times of the rows of one launch of a benchmark, in the order of the rows; absent where the launch lacks
/// the row. Times are above 0.
using LaunchTimes = std::vector<std::optional<double>>;

/// What was found of one row, or of all: how much longer it takes now, and how sure that is.
struct LaunchShift {
  double ratio = 1;
  double p = 1;
  double p_adjusted = 1;
  bool is_slower = false;
};

/// What counts as slower: p_adjusted below `significance`, and a ratio above the least one. The speeds of
/// launches of the same program, ten and ten within two minutes, were up to 1.12 times apart in 19 of 20
/// pairs of results (docs/results/bench.md), and so are all rows together; what is left of a row moves by
/// less.
struct SlowerLimits {
  double significance = 0.01;
  double least_ratio = 1.05;         // of one row
  double least_common_ratio = 1.10;  // of all
};

/// Rows that may become slower together, as those of one op: their numbers.
using RowFamily = std::vector<std::size_t>;

struct LaunchShifts {
  /// Of each row against the other rows of the same launch.
  std::vector<LaunchShift> relative;
  /// Of each family its rows together, against each other family; absent where is_related() says so.
  std::vector<std::optional<LaunchShift>> families;
  LaunchShift all;  // of the rows that are neither slower nor faster than others
};

/// Rows for which others can be the measure: of three others, the one in the middle is right where one of
/// them changed.
constexpr std::size_t k_fewest_rows_to_relate = 4;

/// Compares launches of two results. A launch has a speed that its rows share: where its memory lies, which
/// cores it got, at which clock rate; on one machine up to twice that of another launch. Hence two questions:
///
/// Is a row slower than the other rows? The speed of a launch, as one row is to be judged by, is the median
/// over its *other* rows of the logarithm of their time less their own median over all launches of both
/// results. What is left of the row's logarithm is compared by the rank sum test (exact_p()): an analysis of
/// covariance, with medians in place of means and a slope of 1, as launches are so many times as fast in all
/// rows.
///
/// Is a family slower than each of the others? The same, of the mean over its rows of what is left of their
/// logarithms by the median of the rows of another family: noise of single rows averages out. Of the
/// comparisons with all others the largest p and the smallest ratio count, so that one family that became
/// faster makes no other one slower (an intersection-union test: R. L. Berger, Technometrics 24 (1982)
/// 295-300).
///
/// Are all rows slower? Each row that is neither slower nor faster than the others, alone or in a family, is
/// compared by its times; the p-values are combined to one (simes()), which rows that go together do not
/// invalidate. The p of a row that is no slower by itself is 1: what became faster is no sign that all are
/// slower. The ratio is that of the median speeds of launches by these rows.
///
/// All tests are adjusted as one family (holm_adjusted()). Needs k_fewest_rows_to_relate rows that launches
/// of both results have. Source: R. A. Fisher, Statistical Methods for
/// Research Workers (1932), section 49.1; D. Quade, Rank analysis of covariance, J. Am. Stat. Assoc. 62
/// (1967) 1187-1200.
LaunchShifts launch_shifts(std::span<const LaunchTimes> before, std::span<const LaunchTimes> now,
                           const std::vector<RowFamily>& families = {}, const SlowerLimits& limits = {});

/// Whether a family is compared: one of several rows, where there are two others or more.
bool is_related(const RowFamily& family, const std::vector<RowFamily>& families);

}  // namespace commlens
