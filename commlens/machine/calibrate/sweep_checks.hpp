#pragma once
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "commlens/base/result.hpp"
#include "commlens/machine/calibrate/sweep.hpp"
#include "commlens/machine/machine.hpp"

namespace commlens {

/// What replicates of a point have in common: library, release, operation, algorithm, type, ranks, nodes,
/// bytes.
using PointKey = std::tuple<std::string, std::string, CommKind, std::string, DType, std::int64_t,
                            std::int64_t, std::int64_t>;
PointKey key_of(const SweepPoint& point);

/// Fails on times that cannot be: that are no positive number, of a library that does not run there, of more
/// ranks than a node has, beyond the links (a unit error), of fewer than three sizes, all there twice, or
/// falling with size as a whole.
Result<void> check_points(const Machine& machine, const std::vector<SweepPoint>& points);

/// What is there but hard to believe: replicates far apart, times that fall on the way to larger sizes.
std::vector<std::string> doubts_of(const std::vector<SweepPoint>& points);

}  // namespace commlens
