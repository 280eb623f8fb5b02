#include "commlens/transport/reduce_kernels.hpp"

#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include <gtest/gtest.h>

namespace commlens {
namespace {

constexpr float k_infinity = std::numeric_limits<float>::infinity();
constexpr float k_nan = std::numeric_limits<float>::quiet_NaN();

/// The value of finite fp16 bits, by the definition of the format.
double value_of_fp16(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 31;
  const int fraction = bits & 1023;
  const double magnitude =
      exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

TEST(ReduceKernels, EveryFiniteFp16WidensToItsValueAndBack) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    if ((half & 0x7C00) == 0x7C00) {
      continue;
    }
    ASSERT_EQ(fp32_from_fp16(half), value_of_fp16(half)) << "bits=" << bits;
    ASSERT_EQ(fp16_from_fp32(fp32_from_fp16(half)), half) << "bits=" << bits;
  }
}

TEST(ReduceKernels, Fp16RoundsHalfwayToEvenAndTheRestToNearest) {
  for (std::uint16_t bits = 0; bits < 0x7BFF; ++bits) {
    const float low = fp32_from_fp16(bits);
    const float high = fp32_from_fp16(static_cast<std::uint16_t>(bits + 1));
    const float half = (low + high) / 2;  // exact: one bit more than fp16
    const auto even = static_cast<std::uint16_t>(bits + bits % 2);
    ASSERT_EQ(fp16_from_fp32(half), even) << "bits=" << bits;
    ASSERT_EQ(fp16_from_fp32(std::nextafter(half, 0.0F)), bits) << "bits=" << bits;
    ASSERT_EQ(fp16_from_fp32(std::nextafter(half, k_infinity)), bits + 1) << "bits=" << bits;
    ASSERT_EQ(fp16_from_fp32(-half), even | 0x8000) << "bits=" << bits;
  }
}

TEST(ReduceKernels, Fp16BeyondItsRangeIsInfinityOrZero) {
  EXPECT_EQ(fp16_from_fp32(65504.0F), 0x7BFF);
  EXPECT_EQ(fp16_from_fp32(65519.996F), 0x7BFF);
  EXPECT_EQ(fp16_from_fp32(65520.0F), 0x7C00);
  EXPECT_EQ(fp16_from_fp32(65536.0F), 0x7C00);
  EXPECT_EQ(fp16_from_fp32(-1e30F), 0xFC00);
  EXPECT_EQ(fp16_from_fp32(k_infinity), 0x7C00);
  EXPECT_EQ(fp16_from_fp32(0x1p-25F), 0);
  EXPECT_EQ(fp16_from_fp32(0x1.8p-25F), 1);
  EXPECT_EQ(fp16_from_fp32(-1e-30F), 0x8000);
  EXPECT_EQ(fp32_from_fp16(0x7C00), k_infinity);
  EXPECT_EQ(fp32_from_fp16(0xFC00), -k_infinity);
}

TEST(ReduceKernels, Bf16RoundsToNearestEven) {
  EXPECT_EQ(bf16_from_fp32(1.0F), 0x3F80);
  EXPECT_EQ(bf16_from_fp32(std::bit_cast<float>(0x3F808000U)), 0x3F80);  // halfway, down to even
  EXPECT_EQ(bf16_from_fp32(std::bit_cast<float>(0x3F818000U)), 0x3F82);  // halfway, up to even
  EXPECT_EQ(bf16_from_fp32(std::bit_cast<float>(0x3F808001U)), 0x3F81);
  EXPECT_EQ(bf16_from_fp32(std::bit_cast<float>(0x3F817FFFU)), 0x3F81);
  EXPECT_EQ(bf16_from_fp32(std::numeric_limits<float>::max()), 0x7F80);
  EXPECT_EQ(bf16_from_fp32(-2.5F), 0xC020);
  EXPECT_EQ(fp32_from_bf16(0xC020), -2.5F);
}

TEST(ReduceKernels, NaNStaysNaN) {
  EXPECT_TRUE(std::isnan(fp32_from_fp16(fp16_from_fp32(k_nan))));
  EXPECT_TRUE(std::isnan(fp32_from_bf16(bf16_from_fp32(k_nan))));
  // All bits that bf16 drops are set: rounding would carry into the exponent.
  EXPECT_TRUE(std::isnan(fp32_from_bf16(bf16_from_fp32(std::bit_cast<float>(0x7FFFFFFFU)))));
  EXPECT_TRUE(std::isnan(fp32_from_bf16(bf16_from_fp32(std::bit_cast<float>(0x7F800001U)))));
  EXPECT_TRUE(std::isnan(fp32_from_fp16(0x7C01)));
}

/// One element per input, combined.
template <typename T>
T combined_of(DType dtype, ReduceOp reduction, const std::vector<T>& given) {
  std::vector<const std::byte*> inputs;
  for (const T& value : given) {
    inputs.push_back(std::as_bytes(std::span(&value, 1)).data());
  }
  T result{};
  const std::array outputs{std::as_writable_bytes(std::span(&result, 1)).data()};
  combine(dtype, reduction, inputs, outputs, {.from = 0, .to = 0, .count = 1});
  return result;
}

TEST(ReduceKernels, Bf16IsSummedInFp32AndRoundedOnce) {
  // 256 + 1 + 1: the spacing of bf16 at 256 is 2, so a sum rounded after each step would stay 256.
  EXPECT_EQ(combined_of<std::uint16_t>(DType::bf16, ReduceOp::sum, {0x4380, 0x3F80, 0x3F80}), 0x4381);
  // fp16: 2048 + 1 + 1 = 2050, spacing 2.
  EXPECT_EQ(combined_of<std::uint16_t>(DType::fp16, ReduceOp::sum, {0x6800, 0x3C00, 0x3C00}), 0x6801);
}

TEST(ReduceKernels, AveragesAreDividedInFp32AndRoundedOnce) {
  // 257 / 5 = 51.4, to a multiple of 1/4 of bf16: 51.5. From a sum that was rounded to 256 it would be 51.25.
  EXPECT_EQ(combined_of<std::uint16_t>(DType::bf16, ReduceOp::avg, {0x4380, 0x3F80, 0, 0, 0}), 0x424E);
  // Twice the greatest fp16 is none.
  EXPECT_EQ(combined_of<std::uint16_t>(DType::fp16, ReduceOp::avg, {0x7BFF, 0x7BFF}), 0x7BFF);
  EXPECT_EQ(combined_of<double>(DType::fp64, ReduceOp::avg, {1.0, 2.0, 6.0}), 3.0);
}

TEST(ReduceKernels, TheDivisorOfAnAverageMayBeGiven) {
  const float sum = 10;
  float average = 0;
  const std::array inputs{std::as_bytes(std::span(&sum, 1)).data()};
  const std::array outputs{std::as_writable_bytes(std::span(&average, 1)).data()};
  combine(DType::fp32, ReduceOp::avg, inputs, outputs, {.count = 1, .divisor = 4});
  EXPECT_EQ(average, 2.5F);
}

TEST(ReduceKernels, SumsInTheOrderOfTheInputs) {
  EXPECT_EQ(combined_of<float>(DType::fp32, ReduceOp::sum, {1e8F, -1e8F, 1.0F}), 1.0F);
  EXPECT_EQ(combined_of<float>(DType::fp32, ReduceOp::sum, {1.0F, 1e8F, -1e8F}), 0.0F);
}

TEST(ReduceKernels, IntegersWrapAround) {
  EXPECT_EQ(combined_of<std::int32_t>(DType::int32, ReduceOp::sum, {2147483647, 1}), -2147483648);
  EXPECT_EQ(combined_of<std::int8_t>(DType::int8, ReduceOp::sum, {127, 2}), -127);
  EXPECT_EQ(combined_of<std::uint8_t>(DType::uint8, ReduceOp::sum, {200, 100}), 44);
  EXPECT_EQ(combined_of<std::int16_t>(DType::int16, ReduceOp::sum, {-32768, -1}), 32767);
}

TEST(ReduceKernels, MaximumOfNegativeNumbersAndNaN) {
  EXPECT_EQ(combined_of<double>(DType::fp64, ReduceOp::max, {-3.0, -1.5, -2.0}), -1.5);
  EXPECT_EQ(combined_of<std::int8_t>(DType::int8, ReduceOp::max, {-3, -128}), -3);
  EXPECT_EQ(combined_of<std::uint8_t>(DType::uint8, ReduceOp::max, {3, 200}), 200);
  EXPECT_EQ(combined_of<std::uint16_t>(DType::bf16, ReduceOp::max, {0xC020, 0xBF80}), 0xBF80);
  EXPECT_TRUE(std::isnan(combined_of<float>(DType::fp32, ReduceOp::max, {1.0F, k_nan, 2.0F})));
  EXPECT_TRUE(std::isnan(combined_of<float>(DType::fp32, ReduceOp::max, {k_nan, 1.0F})));
}

}  // namespace
}  // namespace commlens
