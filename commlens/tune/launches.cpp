#include "commlens/tune/launches.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <numbers>
#include <optional>
#include <utility>
#include <vector>

#include "commlens/base/check.hpp"
#include "commlens/bench/median.hpp"

namespace commlens::tune {
namespace {

constexpr std::int64_t k_fewest_rounds = 5;  // of a half: its median is one number of many

bool counts(const LaunchMedians& launch) {
  return launch.even.rounds >= k_fewest_rounds && launch.odd.rounds >= k_fewest_rounds;
}

/// The medians of one half over the launches that have it.
HalfMedians half_together(std::span<const LaunchMedians> launches, HalfMedians LaunchMedians::* half) {
  HalfMedians together;
  std::vector<double> defaults;
  std::vector<double> times;
  for (const LaunchMedians& launch : launches) {
    const HalfMedians& own = launch.*half;
    if (own.rounds > 0) {
      together.rounds = std::max(together.rounds, own.rounds);
      defaults.push_back(own.default_s);
      times.push_back(own.time_s);
    }
  }
  if (together.rounds > 0) {
    together.default_s = bench::quantile(defaults, 0.5);
    together.time_s = bench::quantile(times, 0.5);
  }
  return together;
}

/// What share of the default's time the variant takes, in each launch that counts.
std::vector<double> shares(const LaunchedVariant& variant, HalfMedians LaunchMedians::* half) {
  std::vector<double> found;
  for (const LaunchMedians& launch : variant.launches) {
    if (counts(launch)) {
      found.push_back((launch.*half).time_s / (launch.*half).default_s);
    }
  }
  return found;
}

/// The median over launches of a figure of odd rounds; 0 of none.
double typical(const LaunchedVariant& variant, double HalfMedians::* figure) {
  std::vector<double> found;
  for (const LaunchMedians& launch : variant.launches) {
    if (launch.odd.rounds > 0) {
      found.push_back(launch.odd.*figure);
    }
  }
  return found.empty() ? 0 : bench::quantile(found, 0.5);
}

/// Calls x time of the changed messages in each launch that has all of them.
struct StepLaunches {
  std::vector<double> usual;
  std::vector<double> changed;
};

StepLaunches step_launches(std::span<const LaunchedMessage> messages) {
  StepLaunches found;
  const std::size_t launches = messages.front().variants.front().launches.size();
  for (std::size_t launch = 0; launch < launches; ++launch) {
    double usual = 0;
    double changed = 0;
    bool has_all = true;
    for (const LaunchedMessage& message : messages) {
      const LaunchMedians& own = message.variants[message.chosen].launches.at(launch);
      has_all = has_all && (message.chosen == 0 || counts(own));
      usual += message.chosen == 0 ? 0 : message.calls * own.odd.default_s;
      changed += message.chosen == 0 ? 0 : message.calls * own.odd.time_s;
    }
    if (has_all) {
      found.usual.push_back(usual);
      found.changed.push_back(changed);
    }
  }
  return found;
}

/// How much longer the values of `usual` are than those of `changed`.
Estimate shift_between(const StepLaunches& launches) {
  std::vector<double> differences;
  for (const double usual : launches.usual) {
    for (const double changed : launches.changed) {
      differences.push_back(usual - changed);
    }
  }
  constexpr double k_unbounded = std::numeric_limits<double>::infinity();
  if (differences.empty()) {
    return {.value = 0, .low = -k_unbounded, .high = k_unbounded};
  }
  std::sort(differences.begin(), differences.end());
  const double value = bench::quantile(differences, 0.5);
  const auto count = static_cast<double>(launches.usual.size());
  if (std::ssize(launches.usual) < k_fewest_launches) {
    return {.value = value, .low = -k_unbounded, .high = k_unbounded};
  }
  constexpr double k_z = 1.96;
  const double spread = k_z * std::sqrt(count * count * (2 * count + 1) / 12);
  const auto place = static_cast<std::size_t>(std::max(1.0, std::floor(count * count / 2 - spread)));
  return {
      .value = value, .low = differences.at(place - 1), .high = differences.at(differences.size() - place)};
}

}  // namespace

LaunchMedians launch_medians_together(std::span<const LaunchMedians> launches) {
  std::vector<LaunchMedians> counted;
  std::ranges::copy_if(launches, std::back_inserter(counted), counts);
  const std::span<const LaunchMedians> taken = counted.empty() ? launches : std::span(std::as_const(counted));
  return {.even = half_together(taken, &LaunchMedians::even),
          .odd = half_together(taken, &LaunchMedians::odd)};
}

Decision decide_over_launches(std::span<const LaunchedVariant> variants, double least_gain) {
  COMMLENS_CHECK(!variants.empty(), "the default is a variant");
  Decision decision{.variant = 0, .default_s = 0, .chosen_s = 0, .gain = {}};
  double smallest = 1 - least_gain;
  for (std::size_t at = 1; at < variants.size(); ++at) {
    const std::vector<double> even = shares(variants[at], &LaunchMedians::even);
    const auto interval = bench::exact_median_interval(even);
    if (interval && interval->high < 1 && interval->median <= smallest) {
      smallest = interval->median;
      decision.variant = at;
    }
  }
  decision.default_s = typical(variants[decision.variant], &HalfMedians::default_s);
  decision.chosen_s = typical(variants[decision.variant], &HalfMedians::time_s);
  if (decision.variant > 0) {
    const auto odd = bench::exact_median_interval(shares(variants[decision.variant], &LaunchMedians::odd));
    COMMLENS_CHECK(odd.has_value(), "it was chosen by as many launches");
    decision.gain = {.value = 1 - odd->median, .low = 1 - odd->high, .high = 1 - odd->low};
  }
  return decision;
}

LaunchMedians launch_medians(const Variant& usual, const Variant& other) {
  LaunchMedians launch;
  for (const Half half : {Half::even, Half::odd}) {
    const Pairs pairs = pairs_of(usual, other, half);
    HalfMedians& medians = half == Half::even ? launch.even : launch.odd;
    medians.rounds = std::ssize(pairs.usual);
    if (medians.rounds > 0) {
      medians.default_s = bench::quantile(pairs.usual, 0.5);
      medians.time_s = bench::quantile(pairs.other, 0.5);
    }
  }
  return launch;
}

bool is_found_again(const Estimate& gain) {
  const double reach = 1 + std::numbers::sqrt2 * 1.645 / 1.96;
  return gain.value > reach * (gain.value - gain.low);
}

StepGain step_gain_over_launches(std::span<const LaunchedMessage> messages) {
  StepGain step;
  bool is_changed = false;
  for (const LaunchedMessage& message : messages) {
    step.default_s += message.calls * typical(message.variants[message.chosen], &HalfMedians::default_s);
    is_changed = is_changed || message.chosen != 0;
  }
  if (is_changed) {
    step.gain_s = shift_between(step_launches(messages));
  }
  return step;
}

}  // namespace commlens::tune
