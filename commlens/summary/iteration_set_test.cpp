#include "commlens/summary/iteration_set.hpp"

#include <random>
#include <set>

#include <gtest/gtest.h>

namespace commlens {
namespace {

std::vector<std::pair<Iteration, Iteration>> ranges_of(const IterationSet& set) {
  std::vector<std::pair<Iteration, Iteration>> ranges;
  set.each_range([&](Iteration first, Iteration last) { ranges.emplace_back(first, last); });
  return ranges;
}

TEST(IterationSet, HoldsNeighboursAsOneRange) {
  IterationSet set;
  for (const Iteration iteration : {5, 7, -1, 6, 7, 9}) {
    set.insert(iteration);
  }
  EXPECT_EQ(ranges_of(set), (std::vector<std::pair<Iteration, Iteration>>{{-1, -1}, {5, 7}, {9, 9}}));
  EXPECT_EQ(set.size(), 5);
  EXPECT_EQ(set.front(), -1);
  EXPECT_EQ(set.back(), 9);
}

TEST(IterationSet, TakesTheLargestAndTheSmallestNumber) {
  IterationSet set;
  set.insert(INT32_MAX);
  set.insert(INT32_MIN);
  set.insert(INT32_MAX);
  EXPECT_EQ(set.size(), 2);
  EXPECT_EQ(set.front(), INT32_MIN);
  EXPECT_EQ(set.back(), INT32_MAX);
}

TEST(IterationSet, IsASetWhateverTheOrder) {
  std::mt19937 random(11);
  for (int round = 0; round < 200; ++round) {
    IterationSet set;
    IterationSet other;
    std::set<Iteration> expected;
    for (int number = 0; number < 40; ++number) {
      const auto iteration = static_cast<Iteration>(random() % 60);
      (number % 3 == 0 ? other : set).insert(iteration);
      expected.insert(iteration);
    }
    set.merge(other);
    EXPECT_EQ(set.list(), std::vector<Iteration>(expected.begin(), expected.end())) << "round " << round;
    EXPECT_EQ(set.size(), std::ssize(expected)) << "round " << round;
    for (Iteration iteration = -1; iteration <= 60; ++iteration) {
      EXPECT_EQ(set.contains(iteration), expected.contains(iteration)) << iteration << " in round " << round;
    }
  }
}

}  // namespace
}  // namespace commlens
