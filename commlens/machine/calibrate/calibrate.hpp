#pragma once
#include <string>
#include <vector>

#include "commlens/base/result.hpp"
#include "commlens/machine/calibrate/sweep.hpp"
#include "commlens/machine/cost/collective.hpp"
#include "commlens/machine/machine.hpp"

namespace commlens {

/// What to fit.
struct CalibrationInput {
  Machine machine;
  std::vector<SweepPoint> points;
  std::string source;              // of the points, for the machine file
  std::string version;             // of the library, where the points do not say; "2.27"
  const Machine* shape = nullptr;  // whose dependence on the number of ranks is taken over; null: its own
};

/// How far a calibration is from the points of one pair.
struct PairError {
  std::string library;
  CommKind op = CommKind::other;
  std::string algorithm;
  std::string protocol;
  bool several_nodes = false;
  std::int64_t rows = 0;
  double median = 0;  // of |predicted/measured - 1|
  double p90 = 0;
  double worst = 0;
  std::string worst_at;  // "FILE:LINE"
};

/// A machine with what was fitted.
struct CalibrationOutput {
  Machine machine;
  std::vector<PairError> errors;   // of the fitted points, by the coefficients alone
  std::vector<std::string> notes;  // pairs that the data cannot support, and why
};

/// Fits coefficients to measured times: replicates of a point become their median, each pair of algorithm and
/// protocol gets six numbers, none below 0, and the measured times themselves. Times that cannot be are
/// refused: a bus bandwidth beyond the links (a unit error), rows that are all there twice, one size. Fails
/// too where no pair has three sizes.
Result<CalibrationOutput> calibrated(const CalibrationInput& input);

/// A measured point (the median of its replicates) and the time that a machine gives it.
struct PointTime {
  SweepPoint point;
  Library library;
  PairName pair;
  CollectiveTime time;
  double error() const { return time.us / point.us - 1; }
};
Result<std::vector<PointTime>> times_of_points(const Machine& machine, const std::vector<SweepPoint>& points,
                                               const std::string& version);

/// How far a machine's times are from points that were not fitted, one line a pair.
Result<std::vector<PairError>> errors_of(const Machine& machine, const std::vector<SweepPoint>& points,
                                         const std::string& version);

}  // namespace commlens
