#include "commlens/engine/loss_scaler.hpp"

#include <vector>

#include <gtest/gtest.h>

namespace commlens::engine {
namespace {

/// The factor after each iteration; 'x' overflows.
std::vector<double> scales_of(const LossScaling& settings, const std::string& iterations) {
  LossScaler scaler(settings, true);
  std::vector<double> scales;
  for (const char iteration : iterations) {
    EXPECT_TRUE(scaler.update(iteration == 'x'));
    scales.push_back(scaler.scale());
  }
  return scales;
}

// By hand from DeepSpeed's DynamicLossScaler.update_scale; the last overflow is iteration -1 at first, so
// that the factor doubles after iteration `window` - 1.
TEST(LossScaler, HalvesAtOverflowAndDoublesAfterAWindow) {
  EXPECT_EQ(scales_of({.initial = 16, .window = 3, .hysteresis = 1}, "...x..."),
            (std::vector<double>{16, 16, 32, 16, 16, 16, 32}));
}

TEST(LossScaler, HysteresisForgivesTheFirstOverflowsUntilTheFactorGrows) {
  EXPECT_EQ(scales_of({.initial = 16, .window = 3, .hysteresis = 2}, "x.xx...x"),
            (std::vector<double>{16, 16, 8, 4, 4, 4, 8, 8}));
}

TEST(LossScaler, ConsecutiveHysteresisIsRefilledByEveryGoodIteration) {
  EXPECT_EQ(
      scales_of({.initial = 16, .window = 100, .hysteresis = 2, .consecutive_hysteresis = true}, "x.x.xx"),
      (std::vector<double>{16, 16, 16, 16, 16, 8}));
}

TEST(LossScaler, StopsAtTheLeastFactor) {
  LossScaler scaler({.initial = 2, .hysteresis = 1, .minimum = 1}, true);
  EXPECT_TRUE(scaler.update(true));
  EXPECT_EQ(scaler.scale(), 1);
  EXPECT_FALSE(scaler.update(true));
}

TEST(LossScaler, AFixedFactorStays) {
  EXPECT_EQ(scales_of({.fixed = 128}, "x.x"), (std::vector<double>{128, 128, 128}));
}

TEST(LossScaler, OtherTypesNeedNone) {
  LossScaler scaler({}, false);
  EXPECT_EQ(scaler.scale(), 1);
  EXPECT_TRUE(scaler.update(false));
  EXPECT_EQ(scaler.scale(), 1);
}

}  // namespace
}  // namespace commlens::engine
