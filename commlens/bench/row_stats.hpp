#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "commlens/bench/rounds.hpp"

namespace commlens::bench {

/// What may be wrong with a row's figures.
enum class RowFlag : std::uint8_t {
  unsettled,     // the interval of the median is wider than +-5 %, or there is none
  bimodal,       // two separate clusters of times
  drifting,      // times rise or fall during the measurement by more than 5 %
  contaminated,  // others took the cores: context switches, or a mean (without the longest hundredth) outside
                 // of P5 to P95
  skewed,        // ranks entered more than 10 % of the time after the first one
  oversubscribed,  // more ranks than cores
  local_clock,     // the clocks of the ranks are too far apart: the longest time of a rank instead
  few_samples,     // fewer than 30, so that there is no interval
  assumed_parts,   // unequal parts are in the ratio 1 : 2 : ... : ranks, for want of the message's own
};
std::string_view name_of(RowFlag flag);
std::optional<RowFlag> row_flag_from(std::string_view name);

/// The figures of a row in one launch, in seconds.
struct RowStats {
  std::int64_t samples = 0;
  double p50_s = 0;
  std::optional<double> low_s;  // of the 95 % interval of the median; absent below 30 samples
  std::optional<double> high_s;
  double min_s = 0;
  double mean_s = 0;
  std::optional<double> p95_s;  // from 20 samples on
  std::optional<double> p99_s;  // from 100 samples on
  double skew_s = 0;            // P50
  double first_s = 0;
  std::vector<RowFlag> flags;
};

/// What a row is measured with.
struct RowSurroundings {
  double clock_error_s = 0;
  bool is_oversubscribed = false;
  double messages = 1;  // of a sample: figures are of one, but for the skew and the first call
};

/// The figures of a row that has samples.
RowStats stats_of(const RowSamples& samples, const RowSurroundings& surroundings);

/// Whether the values fall into two clusters: split where that leaves the least variance of their logarithms,
/// the two means are far apart (Ashman's D > 4; a normal distribution split at its mean has 2.65, a uniform
/// one 3.46), and the smaller one has a tenth of the values. Source: K. A. Ashman, C. M. Bird, S. E. Zepf,
/// Astron. J. 108 (1994) 2348-2361, equation 5.
bool is_bimodal(std::span<const double> values);

/// Whether the values rise or fall in their order: Spearman's rank correlation with the order is not 0 (|z| >
/// 3.29, p = 0.001), and the medians of the first and the last third differ by more than 5 %.
bool is_drifting(std::span<const double> values);

}  // namespace commlens::bench
