#pragma once
#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "commlens/machine/cost/call.hpp"
#include "commlens/machine/machine.hpp"

namespace commlens {

/// What the six coefficients of a pair stand before, all of them at least 0 in the fit, so that times never
/// fall with size. With x the bytes that a rank sends, S those of the call and N nodes:
///   in a node:      1, steps, x/1e3, S/1e3, sqrt(x)/10, g (bytes at which LL saturates; of a channel of send
///   and recv) between nodes:  1, steps, x/1e3, x/1e3 log2 N, sqrt(x)/10, sqrt(x)/10 log2 N
/// Source: docs/time-model.md.
using Features = std::array<double, 6>;
Features features(const std::string& algorithm, const std::string& protocol, const TimedCall& call);

/// us by the form alone.
double form_us(const PairFit& fit, const TimedCall& call);

/// Where a coefficient is drawn when the data do not fix it, and on which scale.
struct Prior {
  Features expected{};
  Features scale{};
};
Prior prior_of(const std::string& algorithm, const std::string& protocol);

/// us of a calibrated pair: the form through the measured times where they were measured, between them along
/// the form; for other numbers of ranks by what the known ones are off (in a node), or between them (on
/// several nodes). Never falls with size.
double calibrated_us(const PairFit& fit, const TimedCall& call);

/// Whether the pair was measured with these ranks on these nodes, or with fewer and with more.
bool covers(const PairFit& fit, const Placement& place);

/// Below this many sizes a fit leans on the library's constants or on another operation.
constexpr std::size_t k_enough_sizes = 3;

/// Sizes that a pair was measured at.
std::size_t measured_sizes(const PairFit& fit);

/// The range of sizes a spread is of: below 8 KiB, 64 KiB, 1 MiB, 16 MiB, above.
std::size_t size_range(Bytes bytes);

/// A value and how much it counts.
struct Weighted {
  double value = 0;
  double weight = 1;
};

/// The value that half of the weight is below; in the middle of two that are both so.
double weighted_median(std::vector<Weighted> values);

/// The values that never fall and have the least sum of weighted distances to these: neighbours that fall
/// become their median.
std::vector<double> never_falling(const std::vector<Weighted>& values);

}  // namespace commlens
