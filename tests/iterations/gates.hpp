#pragma once
#include <functional>
#include <string>
#include <vector>

#include "tests/iterations/runs.hpp"

namespace commlens::test_support {

/// What the times of iterations must reach on runs that no fit has seen. A limit counts only where the model
/// beats all three baselines.
struct Gate {
  std::string suite;
  std::string split;
  double limit = 0;      // of the mean error, %
  double p90_limit = 0;  // 0: none
  bool is_met = true;    // false: not reached; reported
  std::function<Comparison()> compare;
};
const std::vector<Gate>& iteration_gates();

/// A table: mean errors of rows drawn at random with the seeds 1 to 10, which the limits are for, and with 30
/// others.
std::string other_drawings();

/// A2: how much slower the optimizer group of all 1,024 ranks is than one of 8, predicted / measured - 1 in
/// %, from at most 256 devices.
double owner_group_error();

/// A4: median error of a model's times on the most devices over those on the fewest, %; its own rows are not
/// fitted.
double weak_scaling_error();

}  // namespace commlens::test_support
