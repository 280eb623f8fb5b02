#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace commlens {

/// Result of a test of the hypothesis that two samples have the same distribution, against the alternative
/// that one is larger.
struct RankSumTest {
  double u =
      0;  // pairs (a, b) with a < b, ties counted one half: 0 … n_a n_b, n_a n_b / 2 without a difference
  double z = 0;  // positive when b is larger
  double p = 1;  // two-sided
};

/// Mann-Whitney U test with mid-ranks for ties, the normal approximation with its variance corrected for
/// ties, and a continuity correction of 1/2 toward the mean:
///   var U = n_a n_b / 12 ((N + 1) - sum over ties of (t^3 - t) / (N (N - 1))),  N = n_a + n_b
/// p = 1 when a sample is empty or all values are equal. The approximation is good from 8 values in each on.
/// Source: H. B. Mann, D. R. Whitney, Ann. Math. Stat. 18 (1947) 50-60; E. L. Lehmann, Nonparametrics (1975),
/// section 1.4 (ties). The same as scipy.stats.mannwhitneyu(method="asymptotic").
RankSumTest mann_whitney(std::span<const double> a, std::span<const double> b);

/// The two-sided p of the same test from the distribution of U over all choices of which of the values are
/// those of `a`: exact, also with ties, where the approximation is too large by 15 times for two samples of
/// ten that do not overlap. Of more than 60 values the approximation stands. p = 1 when a sample is empty.
/// Source: Mann and Whitney (1947), section 3; Lehmann (1975), section 1.4.
double exact_p(std::span<const double> a, std::span<const double> b);

/// The p-values of several tests made at once, adjusted so that the probability of any false alarm among all
/// of them stays at the requested level: p_(i) becomes max over j <= i of min(1, (k - j + 1) p_(j)),
/// ascending, k tests. Source: S. Holm, Scand. J. Statistics 6 (1979) 65-70.
std::vector<double> holm_adjusted(std::span<const double> p_values);

/// One p of several, for the hypothesis that all of theirs hold: the smallest k p_(i) / i, ascending, k
/// tests. Right for independent ones and for those that go together. 1 of none. Source: R. J. Simes,
/// Biometrika 73 (1986) 751-754; S. K. Sarkar, Ann. Stat. 26 (1998) 494-504.
double simes(std::vector<double> p_values);

/// The smallest that `exact_p` can be with so many values in each sample: 2 / (n_a + n_b over n_a), of more
/// than 60 values that of the approximation.
double smallest_exact_p(std::int64_t values_a, std::int64_t values_b);

/// The smallest two-sided p that `mann_whitney` can give with so many values in each sample, no ties.
double smallest_p(std::int64_t values_a, std::int64_t values_b);

}  // namespace commlens
