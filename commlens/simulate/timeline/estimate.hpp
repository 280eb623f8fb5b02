#pragma once

namespace commlens {

/// A simulated figure with its 90 % interval.
struct Estimate {
  double value = 0;
  double low = 0;
  double high = 0;
};

}  // namespace commlens
