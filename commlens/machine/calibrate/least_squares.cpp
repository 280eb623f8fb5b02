#include "commlens/machine/calibrate/least_squares.hpp"

#include <cmath>
#include <optional>

namespace commlens {
namespace {

using Unknowns = std::array<double, k_unknowns>;

struct Normal {
  std::array<Unknowns, k_unknowns> gram{};
  Unknowns right{};
};

Normal normal_of(const std::vector<Equation>& equations, const Unknowns& scale) {
  Normal normal;
  for (const Equation& equation : equations) {
    const double square = equation.weight * equation.weight;
    for (std::size_t row = 0; row < k_unknowns; ++row) {
      const double left = equation.factors[row] * scale[row] * square;
      normal.right[row] += left * equation.target;
      for (std::size_t column = 0; column < k_unknowns; ++column) {
        normal.gram[row][column] += left * equation.factors[column] * scale[column];
      }
    }
  }
  return normal;
}

Unknowns scale_of_factors(const std::vector<Equation>& equations) {
  Unknowns squares{};
  for (const Equation& equation : equations) {
    for (std::size_t row = 0; row < k_unknowns; ++row) {
      squares[row] += equation.factors[row] * equation.factors[row];
    }
  }
  Unknowns scale{};
  for (std::size_t row = 0; row < k_unknowns; ++row) {
    scale[row] = squares[row] > 0 ? 1 / std::sqrt(squares[row]) : 0;
  }
  return scale;
}

/// The solution with only the unknowns of `chosen` (a set of bits) not 0; std::nullopt where these are not
/// fixed or one is below 0.
std::optional<Unknowns> solution(const Normal& normal, unsigned chosen) {
  std::vector<std::size_t> places;
  for (std::size_t row = 0; row < k_unknowns; ++row) {
    if ((chosen >> row & 1U) != 0) {
      places.push_back(row);
    }
  }
  // Cholesky: lower * lower^T = gram.
  std::array<Unknowns, k_unknowns> lower{};
  Unknowns half{};
  for (std::size_t row = 0; row < places.size(); ++row) {
    for (std::size_t column = 0; column <= row; ++column) {
      double sum = normal.gram[places[row]][places[column]];
      for (std::size_t inner = 0; inner < column; ++inner) {
        sum -= lower[row][inner] * lower[column][inner];
      }
      if (row == column && sum < 1e-12) {
        return std::nullopt;
      }
      lower[row][column] = row == column ? std::sqrt(sum) : sum / lower[column][column];
    }
    double sum = normal.right[places[row]];
    for (std::size_t inner = 0; inner < row; ++inner) {
      sum -= lower[row][inner] * half[inner];
    }
    half[row] = sum / lower[row][row];
  }
  Unknowns result{};
  for (std::size_t row = places.size(); row-- > 0;) {
    double sum = half[row];
    for (std::size_t below = row + 1; below < places.size(); ++below) {
      sum -= lower[below][row] * result[places[below]];
    }
    result[places[row]] = sum / lower[row][row];
    if (result[places[row]] < 0) {
      return std::nullopt;
    }
  }
  return result;
}

/// The sum of squares that a solution takes off that of all zeros.
double gain(const Normal& normal, const Unknowns& values) {
  double sum = 0;
  for (std::size_t row = 0; row < k_unknowns; ++row) {
    sum += values[row] * normal.right[row];
  }
  return sum;
}

}  // namespace

std::array<double, k_unknowns> non_negative_least_squares(const std::vector<Equation>& equations) {
  const Unknowns scale = scale_of_factors(equations);
  const Normal normal = normal_of(equations, scale);
  Unknowns best{};
  double most = 0;
  for (unsigned chosen = 1; chosen < (1U << k_unknowns); ++chosen) {
    const std::optional<Unknowns> values = solution(normal, chosen);
    if (values && gain(normal, *values) > most) {
      most = gain(normal, *values);
      best = *values;
    }
  }
  for (std::size_t row = 0; row < k_unknowns; ++row) {
    best[row] *= scale[row];
  }
  return best;
}

}  // namespace commlens
