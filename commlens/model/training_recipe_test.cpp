#include "commlens/model/training_recipe.hpp"

#include <gtest/gtest.h>

namespace commlens {
namespace {

LearningRateSchedule schedule(DecayStyle style, double warmup = 2) {
  return {.style = style, .peak = 1.0, .minimum = 0.2, .warmup = warmup, .iterations = 10};
}

TEST(LearningRate, RisesLinearlyDuringWarmUp) {
  EXPECT_DOUBLE_EQ(learning_rate_at(schedule(DecayStyle::cosine), 0), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate_at(schedule(DecayStyle::cosine), 1), 1.0);
}

TEST(LearningRate, FollowsACosineToTheMinimum) {
  const LearningRateSchedule cosine = schedule(DecayStyle::cosine);
  EXPECT_DOUBLE_EQ(learning_rate_at(cosine, 2), 1.0);
  EXPECT_NEAR(learning_rate_at(cosine, 6), 0.6, 1e-12);  // half way: the mean of both
  EXPECT_NEAR(learning_rate_at(cosine, 10), 0.2, 1e-12);
  EXPECT_NEAR(learning_rate_at(cosine, 100), 0.2, 1e-12);
}

TEST(LearningRate, NeedsNoWarmUp) {
  EXPECT_DOUBLE_EQ(learning_rate_at(schedule(DecayStyle::cosine, 0), 0), 1.0);
}

TEST(LearningRate, StaysOrFallsInALine) {
  EXPECT_DOUBLE_EQ(learning_rate_at(schedule(DecayStyle::constant), 7), 1.0);
  EXPECT_NEAR(learning_rate_at(schedule(DecayStyle::linear), 6), 0.6, 1e-12);  // 1 - 0.8 x 4/8
  EXPECT_NEAR(learning_rate_at(schedule(DecayStyle::linear), 30), 0.2, 1e-12);
}

/// GPT-NeoX's: lr 0.001, min_lr 0.0002, warmup 0.05 of 40 iterations. The values are those of its
/// AnnealingLR.get_lr, computed by hand: warm-up is lr i / 2 for i up to 2; then n = i - 2 of 38 iterations.
LearningRateSchedule neox(DecayStyle style) {
  return {.style = style,
          .peak = 1e-3,
          .minimum = 2e-4,
          .warmup = 2,
          .iterations = 40,
          .warms_up_from_zero = true,
          .linear_to_zero = true};
}

TEST(LearningRate, IsThatOfGptNeoX) {
  for (const DecayStyle style :
       {DecayStyle::constant, DecayStyle::linear, DecayStyle::cosine, DecayStyle::exponential}) {
    EXPECT_DOUBLE_EQ(learning_rate_at(neox(style), 0), 0.0);
    EXPECT_DOUBLE_EQ(learning_rate_at(neox(style), 1), 5e-4);
    EXPECT_DOUBLE_EQ(learning_rate_at(neox(style), 2), 1e-3);
  }
  EXPECT_DOUBLE_EQ(learning_rate_at(neox(DecayStyle::constant), 39), 1e-3);
  EXPECT_NEAR(learning_rate_at(neox(DecayStyle::linear), 21), 5e-4, 1e-15);  // n = 19 of 38
  EXPECT_NEAR(learning_rate_at(neox(DecayStyle::linear), 39), 2e-4, 1e-15);  // 1/38 of the peak is less
  EXPECT_NEAR(learning_rate_at(neox(DecayStyle::cosine), 21), 6e-4, 1e-15);  // the mean of both ends
  EXPECT_NEAR(learning_rate_at(neox(DecayStyle::cosine), 40), 2e-4, 1e-15);
  EXPECT_NEAR(learning_rate_at(neox(DecayStyle::exponential), 21), 7.07159e-4, 1e-9);  // exp(-0.3465)
  EXPECT_NEAR(learning_rate_at(neox(DecayStyle::exponential), 40), 5.00074e-4, 1e-9);  // exp(-0.693)
}

TEST(DecayStyle, IsChosenByName) {
  EXPECT_EQ(decay_style_from("exponential").value(), DecayStyle::exponential);
  EXPECT_NE(decay_style_from("cosin").error().message.find("did you mean 'cosine'"), std::string::npos);
}

}  // namespace
}  // namespace commlens
