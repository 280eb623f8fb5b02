#pragma once
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "commlens/machine/calibrate/calibrate.hpp"

namespace commlens::test_support {

/// A file below $COMMLENS_TEST_DATA/facts; std::nullopt where there is none.
std::optional<std::filesystem::path> fact(const std::string& file);

/// The points of a sweep of facts, each the median of its replicates. Fails the test where it cannot be read.
std::vector<SweepPoint> points_of(const std::string& file);

/// Points for a fit, and those that it never sees.
struct Split {
  std::vector<SweepPoint> fitted;
  std::vector<SweepPoint> held;
};

/// Every other size (the first, or with `second` the second) of groups of these ranks is fitted; the rest,
/// and groups of other ranks, are held.
Split by_alternate_sizes(const std::vector<SweepPoint>& points, const std::vector<std::int64_t>& ranks,
                         bool second);

/// Points that satisfy `is_fitted`, and the others.
Split split_by(const std::vector<SweepPoint>& points,
               const std::function<bool(const SweepPoint&)>& is_fitted);

/// The built-in machine.
Machine built_in(const std::string& name);

/// A machine fitted to points.
Machine fitted(const std::string& machine, const std::vector<SweepPoint>& points,
               const Machine* shape = nullptr);

/// The same without the measured times themselves: the six coefficients of each pair alone.
Machine without_tables(Machine machine);

/// How far a machine's times are from points.
struct Score {
  std::size_t rows = 0;
  double median = 0;  // of |predicted / measured - 1|, %
  double p90 = 0;
  double inside = 0;      // % of the measured times that are in their interval
  double half_width = 0;  // median of the intervals' half widths, %
};
Score score_of(const Machine& machine, const std::vector<SweepPoint>& points);

/// Points whose neighbour in size is under another algorithm or protocol.
std::vector<SweepPoint> at_switches(const Machine& machine, const std::vector<SweepPoint>& all,
                                    const std::vector<SweepPoint>& among);

double percentile_of(std::vector<double> values, double share);

}  // namespace commlens::test_support
