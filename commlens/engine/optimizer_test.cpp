#include "commlens/engine/optimizer.hpp"

#include <gtest/gtest.h>

namespace commlens::engine {
namespace {

TrainOptions schedule() {
  return {.iterations = 10, .learning_rate = 1.0, .min_learning_rate = 0.2, .warmup = 2};
}

TEST(LearningRate, RisesLinearlyDuringWarmUp) {
  EXPECT_DOUBLE_EQ(learning_rate_at(schedule(), 0), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate_at(schedule(), 1), 1.0);
}

TEST(LearningRate, FollowsACosineToTheMinimum) {
  EXPECT_DOUBLE_EQ(learning_rate_at(schedule(), 2), 1.0);
  EXPECT_NEAR(learning_rate_at(schedule(), 6), 0.6, 1e-12);  // half way: the mean of both
  EXPECT_NEAR(learning_rate_at(schedule(), 10), 0.2, 1e-12);
  EXPECT_NEAR(learning_rate_at(schedule(), 100), 0.2, 1e-12);
}

TEST(LearningRate, NeedsNoWarmUp) {
  TrainOptions options = schedule();
  options.warmup = 0;
  EXPECT_DOUBLE_EQ(learning_rate_at(options, 0), 1.0);
}

}  // namespace
}  // namespace commlens::engine
