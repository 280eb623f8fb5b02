#include "commlens/machine/calibrate/least_squares.hpp"

#include <gtest/gtest.h>

namespace commlens {
namespace {

TEST(LeastSquares, FindsWhatEquationsWereMadeOf) {
  std::vector<Equation> equations;
  for (int x = 1; x <= 8; ++x) {
    Equation equation;
    equation.factors = {1, static_cast<double>(x), static_cast<double>(x * x), 0, 0, 0};
    equation.target = 3 + 2.0 * x;
    equations.push_back(equation);
  }
  const auto found = non_negative_least_squares(equations);
  EXPECT_NEAR(found[0], 3, 1e-9);
  EXPECT_NEAR(found[1], 2, 1e-9);
  EXPECT_NEAR(found[2], 0, 1e-9);
}

// y = 10 - x has no slope that is not negative: the best is the mean, 7.5 of 10 - {1, 2, 3, 4}.
TEST(LeastSquares, PutsNegativeUnknownsToNothing) {
  std::vector<Equation> equations;
  for (int x = 1; x <= 4; ++x) {
    Equation equation;
    equation.factors = {1, static_cast<double>(x), 0, 0, 0, 0};
    equation.target = 10.0 - x;
    equations.push_back(equation);
  }
  const auto found = non_negative_least_squares(equations);
  EXPECT_NEAR(found[0], 7.5, 1e-9);
  EXPECT_EQ(found[1], 0);
}

TEST(LeastSquares, WeighsEquations) {
  Equation first;
  first.factors[0] = 1;
  first.target = 1;
  Equation second = first;
  second.target = 4;
  second.weight = 2;  // counts four times
  EXPECT_NEAR(non_negative_least_squares({first, second})[0], (1 + 4 * 4) / 5.0, 1e-9);
}

}  // namespace
}  // namespace commlens
