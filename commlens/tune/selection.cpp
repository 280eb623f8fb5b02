#include "commlens/tune/selection.hpp"

#include <algorithm>
#include <functional>
#include <optional>
#include <random>

#include "commlens/base/check.hpp"
#include "commlens/bench/median.hpp"

namespace commlens::tune {
namespace {

using bench::MedianInterval;

bool is_in(std::int64_t round, Half half) { return (round % 2 == 0) == (half == Half::even); }

/// The median; sorts `values` in part. 0 of nothing.
double middle(std::vector<double>& values) {
  if (values.empty()) {
    return 0;
  }
  const auto half = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), half, values.end());
  if (values.size() % 2 != 0) {
    return *half;
  }
  return (*half + *std::max_element(values.begin(), half)) / 2;
}

struct Medians {
  double usual = 0;
  double other = 0;
};

Medians medians_of(Pairs pairs) { return {middle(pairs.usual), middle(pairs.other)}; }

/// Medians of as many rounds drawn, with replacement, from those of a pair.
class Resampler {
 public:
  explicit Resampler(std::uint64_t seed) : random_(seed) {}

  Medians medians_of(const Pairs& pairs) {
    const std::size_t count = pairs.usual.size();
    drawn_.usual.resize(count);
    drawn_.other.resize(count);
    std::uniform_int_distribution<std::size_t> any(0, count - 1);
    for (std::size_t at = 0; at < count; ++at) {
      const std::size_t round = any(random_);
      drawn_.usual[at] = pairs.usual[round];
      drawn_.other[at] = pairs.other[round];
    }
    return {middle(drawn_.usual), middle(drawn_.other)};
  }

 private:
  std::mt19937_64 random_;
  Pairs drawn_;
};

/// 95 % of the values of `draw`, made `count` times, around `value`.
Estimate resampled(double value, std::int64_t count, const std::function<double()>& draw) {
  std::vector<double> draws(static_cast<std::size_t>(std::max<std::int64_t>(count, 1)));
  std::generate(draws.begin(), draws.end(), draw);
  return {.value = value, .low = bench::quantile(draws, 0.025), .high = bench::quantile(draws, 0.975)};
}

/// How much of the default's time a variant takes in even rounds; std::nullopt if it is not clearly faster.
std::optional<double> share_of_a_faster(const Variant& usual, const Variant& other, double least_gain) {
  const Pairs even = pairs_of(usual, other, Half::even);
  const std::optional<MedianInterval> before = bench::median_interval(even.usual);
  const std::optional<MedianInterval> after = bench::median_interval(even.other);
  if (!before || !after || !bench::median_interval(pairs_of(usual, other, Half::odd).usual)) {
    return std::nullopt;
  }
  const bool is_faster =
      after->high < before->low && before->median - after->median >= least_gain * before->median;
  return is_faster ? std::optional(after->median / before->median) : std::nullopt;
}

/// The variant that even rounds choose; 0: the default.
std::size_t choice(std::span<const Variant> variants, double least_gain) {
  std::size_t best = 0;
  double smallest = 1;
  for (std::size_t at = 1; at < variants.size(); ++at) {
    const std::optional<double> share = share_of_a_faster(variants[0], variants[at], least_gain);
    if (share && *share < smallest) {
      best = at;
      smallest = *share;
    }
  }
  return best;
}

}  // namespace

/// Rounds of a variant rise.
Pairs pairs_of(const Variant& usual, const Variant& other, Half half) {
  COMMLENS_CHECK(usual.rounds.size() == usual.times_s.size() && other.rounds.size() == other.times_s.size(),
                 "every sample has its round");
  Pairs pairs;
  std::size_t at = 0;
  for (std::size_t own = 0; own < usual.rounds.size(); ++own) {
    while (at < other.rounds.size() && other.rounds[at] < usual.rounds[own]) {
      ++at;
    }
    const bool are_both = at < other.rounds.size() && other.rounds[at] == usual.rounds[own];
    if (are_both && is_in(usual.rounds[own], half)) {
      pairs.usual.push_back(usual.times_s[own]);
      pairs.other.push_back(other.times_s[at]);
    }
  }
  return pairs;
}

Decision decide(std::span<const Variant> variants, const SelectionOptions& options) {
  COMMLENS_CHECK(!variants.empty(), "the default is a variant");
  const std::size_t chosen = choice(variants, options.least_gain);
  const Pairs odd = pairs_of(variants[0], variants[chosen], Half::odd);
  const Medians medians = medians_of(odd);
  Decision decision{.variant = chosen, .default_s = medians.usual, .chosen_s = medians.other, .gain = {}};
  if (chosen != 0) {
    Resampler resampler(options.seed);
    decision.gain = resampled(1 - medians.other / medians.usual, options.resamples, [&] {
      const Medians drawn = resampler.medians_of(odd);
      return 1 - drawn.other / drawn.usual;
    });
  }
  return decision;
}

StepGain step_gain(std::span<const WeightedMessage> messages, const SelectionOptions& options) {
  struct Changed {
    Pairs odd;
    double calls = 0;
  };
  StepGain step;
  std::vector<Changed> changed;
  for (const WeightedMessage& message : messages) {
    const Pairs odd = pairs_of(message.variants[0], message.variants[message.chosen], Half::odd);
    const Medians medians = medians_of(odd);
    step.default_s += message.calls * medians.usual;
    if (message.chosen != 0) {
      step.gain_s.value += message.calls * (medians.usual - medians.other);
      changed.push_back({odd, message.calls});
    }
  }
  if (changed.empty()) {
    return step;
  }
  Resampler resampler(options.seed);
  step.gain_s = resampled(step.gain_s.value, options.resamples, [&] {
    double gain = 0;
    for (const Changed& message : changed) {
      const Medians drawn = resampler.medians_of(message.odd);
      gain += message.calls * (drawn.usual - drawn.other);
    }
    return gain;
  });
  return step;
}

}  // namespace commlens::tune
