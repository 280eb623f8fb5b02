#pragma once
#include <optional>
#include <span>

namespace commlens::bench {

/// The median of a sample, and an interval that holds the median of its distribution with 95 % probability,
/// whatever the distribution: the order statistics floor((N - z sqrt N) / 2) and 1 + ceil((N + z sqrt N) /
/// 2), counted from 1, z = 1.96. Source: J.-Y. Le Boudec, Performance Evaluation (2010), theorem 2.1 and its
/// approximation for N >= 30.
struct MedianInterval {
  double median = 0;
  double low = 0;
  double high = 0;
};

/// std::nullopt for fewer than 30 values.
std::optional<MedianInterval> median_interval(std::span<const double> values);

/// The same of few values, exactly: the j-th from below and from above, j the largest for which a binomial
/// variable (N, 1/2) is below j with at most 2.5 % probability. Of 6 to 8 values that is their range, of 10
/// the second and the ninth. std::nullopt for fewer than 6 values. Source: Le Boudec (2010), theorem 2.1.
std::optional<MedianInterval> exact_median_interval(std::span<const double> values);

/// The value below which a share of `values` lies, interpolated between neighbours; `values` not empty.
double quantile(std::span<const double> values, double share);

}  // namespace commlens::bench
