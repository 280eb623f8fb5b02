#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace commlens::tune {

/// The times of one message made in one way, all from one shuffled run.
struct Variant {
  std::string algorithm;             // empty: the library's own choice
  std::vector<std::int64_t> rounds;  // in which each sample was taken, rising
  std::vector<double> times_s;
};

/// Samples of even rounds choose; those of odd rounds report.
enum class Half : std::uint8_t { even, odd };

/// Times of two variants of a message in the rounds of a half that both were timed in, in the same order. A
/// machine may be faster in rounds that only one of them saw.
struct Pairs {
  std::vector<double> usual;
  std::vector<double> other;
};
Pairs pairs_of(const Variant& usual, const Variant& other, Half half);

struct SelectionOptions {
  double least_gain = 0.05;  // of a rule: (default - chosen) / default
  std::uint64_t seed = 1;    // of the resampling
  std::int64_t resamples = 2000;
};

/// A number and its 95 % interval.
struct Estimate {
  double value = 0;
  double low = 0;
  double high = 0;
};

/// Which variant a message should use. A variant and the default are compared over the rounds that both were
/// timed in. It is chosen on even rounds: the one with the smallest median there, as a share of the
/// default's, of those whose 95 % interval lies below that of the default and whose median is smaller by
/// `least_gain`. All that is reported comes from odd rounds, which the choice has not seen.
struct Decision {
  std::size_t variant = 0;  // 0: the default, no rule
  double default_s = 0;     // medians of odd rounds, of those that both have
  double chosen_s = 0;
  Estimate gain;  // (default - chosen) / default, by resampling odd rounds of both; 0 without a rule
};

/// `variants`: the default first; at least that. A variant without 30 even and 30 odd rounds in common with
/// the default is not chosen.
Decision decide(std::span<const Variant> variants, const SelectionOptions& options);

/// A message of a step: how it was decided, and how often the step makes it.
struct WeightedMessage {
  std::span<const Variant> variants;
  std::size_t chosen = 0;
  double calls = 0;
};

/// What a step would gain: the sum over messages of calls x (default - chosen), medians of odd rounds. Its
/// interval holds 95 % of that sum's values when the odd rounds of every message are drawn anew, with
/// replacement, each with its samples of both variants. 0 seconds, exactly, where nothing was chosen.
struct StepGain {
  double default_s = 0;  // calls x default, of all messages
  Estimate gain_s;
};
StepGain step_gain(std::span<const WeightedMessage> messages, const SelectionOptions& options);

}  // namespace commlens::tune
