#include "commlens/compare/significance.hpp"

#include <array>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace commlens {
namespace {

constexpr double k_near = 1e-9;

// All 9 pairs have a < b: U = 9; mean 4.5, variance 9 (6 + 1) / 12 = 5.25; z = (9 - 4.5 - 0.5) / sqrt(5.25).
TEST(MannWhitney, CountsPairsThatAreLargerInB) {
  const RankSumTest test = mann_whitney(std::array{1.0, 2.0, 3.0}, std::array{4.0, 5.0, 6.0});
  EXPECT_EQ(test.u, 9.0);
  EXPECT_NEAR(test.z, 4 / std::sqrt(5.25), k_near);
  EXPECT_NEAR(test.p, 0.080855598370, 1e-9);  // scipy.stats.mannwhitneyu(method="asymptotic")
}

TEST(MannWhitney, IsNegativeWhenBIsSmaller) {
  const RankSumTest test = mann_whitney(std::array{4.0, 5.0, 6.0}, std::array{1.0, 2.0, 3.0});
  EXPECT_EQ(test.u, 0.0);
  EXPECT_NEAR(test.z, -4 / std::sqrt(5.25), k_near);
  EXPECT_NEAR(test.p, 0.080855598370, 1e-9);
}

// Of the 20 ways to take 3 of 6 values, two are as far apart as {1, 2, 3} and {4, 5, 6}.
TEST(ExactP, CountsChoicesThatAreAsFarApart) {
  EXPECT_NEAR(exact_p(std::array{1.0, 2.0, 3.0}, std::array{4.0, 5.0, 6.0}), 0.1, k_near);
  EXPECT_NEAR(exact_p(std::array{4.0, 5.0, 6.0}, std::array{1.0, 2.0, 3.0}), 0.1, k_near);
  // Sums of ranks 6, 7 and 14, 15: one way each.
  EXPECT_NEAR(exact_p(std::array{1.0, 2.0, 4.0}, std::array{3.0, 5.0, 6.0}), 0.2, k_near);
  EXPECT_NEAR(smallest_exact_p(3, 3), 0.1, k_near);
}

// 20 over 10 = 184,756. U = 23 is the largest that is significant at 5 % with ten values each: table of the
// two-sided test, Lehmann (1975), p. 419 ff.
TEST(ExactP, IsThatOfTheTables) {
  std::vector<double> a;
  std::vector<double> b;
  for (int value = 0; value < 10; ++value) {
    a.push_back(value);
    b.push_back(10 + value);
  }
  EXPECT_NEAR(exact_p(a, b), 2.0 / 184'756, k_near);
  EXPECT_NEAR(smallest_exact_p(10, 10), 2.0 / 184'756, k_near);
  EXPECT_NEAR(smallest_exact_p(6, 6), 2.0 / 924, k_near);
  const auto with_u = [&](int u) {  // the largest of `a` above so many of `b`, ten at a time
    std::vector<double> moved = a;
    for (std::size_t at = moved.size(); u > 0; --at) {
      const int above = std::min(u, 10);
      moved[at - 1] = 9.5 + above + 0.01 * static_cast<double>(at);
      u -= above;
    }
    return exact_p(moved, b);
  };
  EXPECT_LT(with_u(23), 0.05);
  EXPECT_GT(with_u(24), 0.05);
}

// Ranks 1, 2.5, 2.5, 4: of the six pairs, those with 1 + 2.5 and 2.5 + 4 are as far apart, twice each.
TEST(ExactP, CountsTiesAsTheyAre) {
  EXPECT_NEAR(exact_p(std::array{1.0, 2.0}, std::array{2.0, 3.0}), 4.0 / 6, k_near);
  EXPECT_NEAR(exact_p(std::array{7.0, 7.0, 7.0}, std::array{7.0, 7.0}), 1.0, k_near);
  EXPECT_EQ(exact_p({}, std::array{1.0}), 1.0);
}

// Of 31 against 31 the approximation: the smallest there is.
TEST(ExactP, IsTheApproximationOfManyValues) {
  std::vector<double> a(31);
  std::vector<double> b(31);
  std::iota(a.begin(), a.end(), 0.0);
  std::iota(b.begin(), b.end(), 31.0);
  EXPECT_EQ(exact_p(a, b), mann_whitney(a, b).p);
  EXPECT_EQ(smallest_exact_p(31, 31), smallest_p(31, 31));
}

// 4 x 0.01, 4 / 2 x 0.02, 4 / 3 x 0.021 = 0.028, 4 / 4 x 0.9.
TEST(Simes, IsTheSmallestOfSharesOfTheTests) {
  EXPECT_NEAR(simes({0.9, 0.02, 0.01, 0.021}), 0.028, k_near);
  EXPECT_NEAR(simes({0.2}), 0.2, k_near);
  EXPECT_EQ(simes({}), 1.0);
}

// b = 2: one a below, two equal: 2. Each b = 3: three below, one equal: 3.5. b = 4: 4. U = 13.
// Ties: three twos and three threes, 2 (27 - 3) = 48; variance 16/12 (9 - 48/56) = 76/7.
TEST(MannWhitney, CountsTiesOneHalfAndCorrectsTheVariance) {
  const RankSumTest test = mann_whitney(std::array{1.0, 2.0, 2.0, 3.0}, std::array{2.0, 3.0, 3.0, 4.0});
  EXPECT_EQ(test.u, 13.0);
  EXPECT_NEAR(test.z, 4.5 / std::sqrt(76.0 / 7), k_near);
}

TEST(MannWhitney, FindsNothingInEqualValues) {
  const RankSumTest test = mann_whitney(std::array{7.0, 7.0, 7.0}, std::array{7.0, 7.0});
  EXPECT_EQ(test.u, 3.0);
  EXPECT_EQ(test.p, 1.0);
}

TEST(MannWhitney, FindsNothingInAnEmptySample) {
  EXPECT_EQ(mann_whitney({}, std::array{1.0}).p, 1.0);
  EXPECT_EQ(mann_whitney({}, {}).p, 1.0);
}

// Both orders of a pair give U and n_a n_b - U, and the same p.
TEST(MannWhitney, IsSymmetric) {
  std::mt19937 random(20240731);
  for (int run = 0; run < 100; ++run) {
    std::vector<double> a(1 + random() % 12);
    std::vector<double> b(1 + random() % 12);
    for (std::vector<double>* const sample : {&a, &b}) {
      for (double& value : *sample) {
        value = static_cast<double>(random() % 9);
      }
    }
    const RankSumTest forth = mann_whitney(a, b);
    const RankSumTest back = mann_whitney(b, a);
    EXPECT_EQ(forth.u + back.u, static_cast<double>(a.size() * b.size())) << "run " << run;
    EXPECT_NEAR(forth.p, back.p, k_near) << "run " << run;
    EXPECT_NEAR(forth.z, -back.z, k_near) << "run " << run;
  }
}

// Ascending: 0.01 x 3, then 0.03 x 2, then 0.04 x 1, which may not fall below the one before.
TEST(Holm, AdjustsStepByStepAndNeverDescends) {
  const std::vector<double> adjusted = holm_adjusted(std::array{0.01, 0.04, 0.03});
  ASSERT_EQ(adjusted.size(), 3u);
  EXPECT_NEAR(adjusted[0], 0.03, k_near);
  EXPECT_NEAR(adjusted[1], 0.06, k_near);
  EXPECT_NEAR(adjusted[2], 0.06, k_near);
}

TEST(Holm, StaysAProbability) {
  EXPECT_EQ(holm_adjusted(std::array{0.9, 0.8})[0], 1.0);
  EXPECT_TRUE(holm_adjusted({}).empty());
}

// Ten values in each sample, all larger in b: U = 100, mean 50, variance 100 x 21 / 12 = 175.
TEST(SmallestP, IsThatOfSeparatedSamples) {
  std::vector<double> a;
  std::vector<double> b;
  for (int value = 0; value < 10; ++value) {
    a.push_back(value);
    b.push_back(100 + value);
  }
  EXPECT_NEAR(mann_whitney(a, b).z, 49.5 / std::sqrt(175.0), k_near);
  EXPECT_EQ(mann_whitney(a, b).p, smallest_p(10, 10));
  EXPECT_EQ(smallest_p(0, 5), 1.0);
}

}  // namespace
}  // namespace commlens
