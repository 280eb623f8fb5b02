#pragma once
#include <array>
#include <cstddef>
#include <vector>

namespace commlens {

constexpr std::size_t k_unknowns = 6;

/// One equation: sum of factors times unknowns = target.
struct Equation {
  std::array<double, k_unknowns> factors{};
  double target = 1;
  double weight = 1;
};

/// The unknowns, none below 0, with the least sum of weighted squared errors: the best of all choices of
/// which unknowns are 0. Equal inputs give equal outputs to the last bit.
std::array<double, k_unknowns> non_negative_least_squares(const std::vector<Equation>& equations);

}  // namespace commlens
