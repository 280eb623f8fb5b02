#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "commlens/tune/selection.hpp"

namespace commlens::tune {

/// Times of one half of a launch's rounds, of those that both ways were timed in: medians of the library's
/// choice and of another way.
struct HalfMedians {
  std::int64_t rounds = 0;
  double default_s = 0;
  double time_s = 0;
};

/// One way to make a message in one launch of a job: even rounds choose, odd ones report.
struct LaunchMedians {
  HalfMedians even;
  HalfMedians odd;
};
LaunchMedians launch_medians(const Variant& usual, const Variant& other);

/// What launches of one moment, which are no independent measurements, count as together: medians of the
/// medians of those that decide_over_launches() would count, else of all, with the most rounds that one of
/// these has. No rounds of none.
LaunchMedians launch_medians_together(std::span<const LaunchMedians> launches);

/// One way over launches. In a launch that lacks it both halves have no rounds.
struct LaunchedVariant {
  std::string algorithm;  // empty: the library's own choice
  std::vector<LaunchMedians> launches;
};

constexpr std::int64_t k_fewest_launches = 6;  // the range of fewer does not hold their median with 95 %

/// As decide(), where launches count and their rounds do not: what a way gains differs from launch to launch
/// by more than rounds of one show. The way is chosen whose share of the default's time in even rounds has
/// the smallest median over launches, if that is smaller than 1 by `least_gain` and its interval lies below 1
/// (bench::exact_median_interval()). What it gains is the median over launches, of odd rounds, and its
/// interval that over launches. Only launches count in which both halves have 5 rounds; fewer than six choose
/// nothing. `variants`: the default first, all with the same launches.
Decision decide_over_launches(std::span<const LaunchedVariant> variants, double least_gain);

/// A message of a step over launches.
struct LaunchedMessage {
  std::span<const LaunchedVariant> variants;
  std::size_t chosen = 0;
  double calls = 0;
};

/// What a step would gain in a job of its own: of the messages with another way than the default's, calls x
/// time by the default in one launch less that by the chosen ways in any launch, as jobs with rules and
/// without are different ones. The value is the median of all these differences (Hodges and Lehmann), the
/// interval that of the rank sum test (Moses): it excludes 0 where the launches of one are longer than those
/// of the other by more than they differ by themselves. It is too wide rather than too narrow, since both
/// come from the same launches. Without six launches that have all these messages, it is unbounded. Source:
/// E. L. Lehmann, Nonparametrics (1975), sections 2.4 and 2.6, by the normal approximation.
StepGain step_gain_over_launches(std::span<const LaunchedMessage> messages);

/// Whether a second run of as many launches would find such a gain above 0, too, with 95 % probability: what
/// it finds differs from what this one has by sqrt 2 times the error of either, so that the gain must be
/// 1 + sqrt 2 x 1.645 / 1.96 = 2.19 times as large as its interval reaches below it. One whose interval just
/// excludes 0 is found again every second time. Source: S. N. Goodman, A comment on replication, p-values and
/// evidence, Stat. Med. 11 (1992) 875-879.
bool is_found_again(const Estimate& gain);

}  // namespace commlens::tune
