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

/// Samples of even rounds choose; those of odd rounds report.
enum class Half : std::uint8_t { even, odd };

std::vector<double> half_of(const Variant& variant, Half half) {
  COMMLENS_CHECK(variant.rounds.size() == variant.times_s.size(), "every sample has its round");
  std::vector<double> times;
  for (std::size_t at = 0; at < variant.rounds.size(); ++at) {
    if ((variant.rounds[at] % 2 == 0) == (half == Half::even)) {
      times.push_back(variant.times_s[at]);
    }
  }
  return times;
}

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

double held_out_median(const Variant& variant) {
  std::vector<double> times = half_of(variant, Half::odd);
  return middle(times);
}

/// The median of as many samples drawn from `times`, with replacement.
class Resampler {
 public:
  explicit Resampler(std::uint64_t seed) : random_(seed) {}

  double median_of(const std::vector<double>& times) {
    drawn_.resize(times.size());
    std::uniform_int_distribution<std::size_t> any(0, times.size() - 1);
    for (double& value : drawn_) {
      value = times[any(random_)];
    }
    return middle(drawn_);
  }

 private:
  std::mt19937_64 random_;
  std::vector<double> drawn_;
};

/// 95 % of the values of `draw`, made `count` times, around `value`.
Estimate resampled(double value, std::int64_t count, const std::function<double()>& draw) {
  std::vector<double> draws(static_cast<std::size_t>(std::max<std::int64_t>(count, 1)));
  std::generate(draws.begin(), draws.end(), draw);
  return {.value = value, .low = bench::quantile(draws, 0.025), .high = bench::quantile(draws, 0.975)};
}

/// The variant that even rounds choose; 0: the default.
std::size_t choice(std::span<const Variant> variants, double least_gain) {
  const std::optional<MedianInterval> usual = bench::median_interval(half_of(variants[0], Half::even));
  if (!usual || !bench::median_interval(half_of(variants[0], Half::odd))) {
    return 0;
  }
  std::size_t best = 0;
  MedianInterval fastest = *usual;
  for (std::size_t at = 1; at < variants.size(); ++at) {
    const std::optional<MedianInterval> even = bench::median_interval(half_of(variants[at], Half::even));
    const std::optional<MedianInterval> odd = bench::median_interval(half_of(variants[at], Half::odd));
    if (even && odd && even->median < fastest.median) {
      best = at;
      fastest = *even;
    }
  }
  const bool is_faster =
      fastest.high < usual->low && usual->median - fastest.median >= least_gain * usual->median;
  return is_faster ? best : 0;
}

}  // namespace

Decision decide(std::span<const Variant> variants, const SelectionOptions& options) {
  COMMLENS_CHECK(!variants.empty(), "the default is a variant");
  Decision decision{.variant = choice(variants, options.least_gain),
                    .default_s = held_out_median(variants[0]),
                    .chosen_s = 0,
                    .gain = {}};
  decision.chosen_s = held_out_median(variants[decision.variant]);
  if (decision.variant == 0) {
    return decision;
  }
  const std::vector<double> usual = half_of(variants[0], Half::odd);
  const std::vector<double> chosen = half_of(variants[decision.variant], Half::odd);
  Resampler resampler(options.seed);
  decision.gain = resampled(1 - decision.chosen_s / decision.default_s, options.resamples, [&] {
    const double before = resampler.median_of(usual);
    return 1 - resampler.median_of(chosen) / before;
  });
  return decision;
}

StepGain step_gain(std::span<const WeightedMessage> messages, const SelectionOptions& options) {
  struct Changed {
    std::vector<double> usual;
    std::vector<double> chosen;
    double calls = 0;
  };
  StepGain step;
  std::vector<Changed> changed;
  for (const WeightedMessage& message : messages) {
    const double before = held_out_median(message.variants[0]);
    step.default_s += message.calls * before;
    if (message.chosen != 0) {
      step.gain_s.value += message.calls * (before - held_out_median(message.variants[message.chosen]));
      changed.push_back({half_of(message.variants[0], Half::odd),
                         half_of(message.variants[message.chosen], Half::odd), message.calls});
    }
  }
  if (changed.empty()) {
    return step;
  }
  Resampler resampler(options.seed);
  step.gain_s = resampled(step.gain_s.value, options.resamples, [&] {
    double gain = 0;
    for (const Changed& message : changed) {
      const double before = resampler.median_of(message.usual);
      gain += message.calls * (before - resampler.median_of(message.chosen));
    }
    return gain;
  });
  return step;
}

}  // namespace commlens::tune
