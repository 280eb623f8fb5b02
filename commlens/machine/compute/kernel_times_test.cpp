#include "commlens/machine/compute/kernel_times.hpp"

#include <gtest/gtest.h>

namespace commlens {
namespace {

/// 100 TFLOP/s, 1 TB/s, as many multiprocessors as a product of 12,800 x 25,600 has tiles.
ComputeRates round_rates() {
  ComputeRates rates;
  rates.peak = 100e12;
  rates.memory_bandwidth = 1e12;
  rates.processors = 10000;
  rates.gemm_efficiency = 0.5;
  rates.fp8_efficiency = 0.5;
  rates.half_inner = 100;
  rates.attention_efficiency = 0.25;
  rates.score_bytes = 30;
  rates.memory_factor = 2;
  return rates;
}

TEST(KernelTimes, OfAProductAreItsOperationsOverTheRateAndTheInnerDimension) {
  // 2 x 12,800 x 25,600 x 100 / 50e12, twice as long for k = k0.
  const Gemm gemm{12800, 25600, 100};
  EXPECT_DOUBLE_EQ(gemm_seconds(round_rates(), gemm, MatrixPrecision::bf16), 2 * 65.536e9 / 50e12);
  EXPECT_DOUBLE_EQ(gemm_seconds(round_rates(), {12800, 25600, 100, 3}, MatrixPrecision::bf16),
                   6 * 65.536e9 / 50e12);
}

TEST(KernelTimes, OfSmallFormatsHaveTwiceTheRateAndTwiceTheInnerDimension) {
  const Gemm gemm{12800, 25600, 100};
  EXPECT_DOUBLE_EQ(gemm_seconds(round_rates(), gemm, MatrixPrecision::fp8), 3 * 65.536e9 / 100e12);
  EXPECT_DOUBLE_EQ(gemm_seconds(round_rates(), gemm, MatrixPrecision::fp4), 2 * 65.536e9 / 100e12);
}

TEST(KernelTimes, PayForAWaveThatIsNotFull) {
  // Half a wave: 1 + 0.46 (1 / 0.5 - 1).
  const Gemm gemm{6400, 25600, 100};
  EXPECT_DOUBLE_EQ(gemm_seconds(round_rates(), gemm, MatrixPrecision::bf16), 1.46 * 2 * 32.768e9 / 50e12);
}

TEST(KernelTimes, OfALongInnerDimensionFillWavesWithItsParts) {
  // Half a wave: two parts of 4,096 fill one. Of 8,191 there are no two parts.
  EXPECT_DOUBLE_EQ(gemm_seconds(round_rates(), {6400, 25600, 8192}, MatrixPrecision::bf16),
                   2 * 6400.0 * 25600 * (8192 + 100) / 50e12);
  EXPECT_DOUBLE_EQ(gemm_seconds(round_rates(), {6400, 25600, 8191}, MatrixPrecision::bf16),
                   1.46 * 2 * 6400.0 * 25600 * (8191 + 100) / 50e12);
  // 0.3 of a wave: three parts fill 0.9.
  EXPECT_DOUBLE_EQ(gemm_seconds(round_rates(), {3840, 25600, 12288}, MatrixPrecision::bf16),
                   (1 + 0.46 * (1 / 0.9 - 1)) * 2 * 3840.0 * 25600 * (12288 + 100) / 50e12);
}

TEST(KernelTimes, OfNothingAreNothing) {
  EXPECT_EQ(gemm_seconds(round_rates(), {0, 1, 1}, MatrixPrecision::bf16), 0);
  EXPECT_EQ(memory_seconds(round_rates(), 0), 0);
}

TEST(KernelTimes, OfFusedAttentionAreHalfOfTheProductsWhereCausal) {
  AttentionKernel kernel{
      .batch = 1, .heads = 2, .kv_heads = 2, .queries = 1000, .keys = 1000, .head_dim = 128};
  kernel.is_fused = true;
  // 4 x 2 x 1e6 x 128 / 2 over 25e12.
  EXPECT_DOUBLE_EQ(attention_seconds(round_rates(), kernel), 512e6 / 25e12);
  kernel.is_backward = true;
  EXPECT_DOUBLE_EQ(attention_seconds(round_rates(), kernel), 2.5 * 512e6 / 25e12);
}

TEST(KernelTimes, OfUnfusedAttentionMoveTheScores) {
  AttentionKernel kernel{
      .batch = 1, .heads = 2, .kv_heads = 2, .queries = 1000, .keys = 1000, .head_dim = 128};
  // All products over 50e12, and 10 bytes for each of 2e6 scores.
  EXPECT_DOUBLE_EQ(attention_seconds(round_rates(), kernel), 1024e6 / 50e12 + 20e6 / 1e12);
  kernel.is_backward = true;
  EXPECT_DOUBLE_EQ(attention_seconds(round_rates(), kernel), 2 * (1024e6 / 50e12 + 20e6 / 1e12));
}

TEST(KernelTimes, OfMemoryBoundWorkAreItsBytesTimesTheFactor) {
  EXPECT_DOUBLE_EQ(memory_seconds(round_rates(), 5e9), 10e-3);
}

}  // namespace
}  // namespace commlens
