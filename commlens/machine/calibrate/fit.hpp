#pragma once
#include <string>
#include <vector>

#include "commlens/machine/calibrate/sweep.hpp"
#include "commlens/machine/cost/library.hpp"
#include "commlens/machine/machine.hpp"

namespace commlens {

/// A point (the median of its replicates) and the pair it belongs to.
struct PairPoint {
  SweepPoint point;
  PairName pair;
  bool several_nodes() const { return point.call.place.nodes > 1; }
};

/// Pairs of one library that could be fitted, and why the others could not.
struct Fits {
  std::vector<PairFit> pairs;
  std::vector<std::string> notes;
};

/// Fits every pair that has three sizes. One that was measured with one number of ranks takes its dependence
/// on it from `shape`, else from another operation under the same algorithm and protocol, where there is one.
Fits fit_pairs(const std::vector<PairPoint>& points, const std::vector<PairFit>& shape);

/// The pair of a list; null where it is not there.
const PairFit* find_pair(const std::vector<PairFit>& pairs, CommKind op, const PairName& name,
                         bool several_nodes);

/// What predictions are off by in each range of sizes (cost/form.hpp), as |log(measured / predicted)|, 4 % at
/// least.
struct Spread {
  /// Half of the sizes predicted by the other half, then the other way round. The 80th percentile: halves
  /// have twice the distance between sizes, so it holds some 90 % of new points (docs/results/calibrate.md).
  std::array<double, 5> of_sizes{};
  /// The middle numbers of nodes predicted by the others, each alone. The 90th percentile.
  std::array<double, 5> of_nodes{};
};
Spread cross_validated_spread(const std::vector<PairPoint>& points, const std::vector<PairFit>& shape);

}  // namespace commlens
