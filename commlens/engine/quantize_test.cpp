#include "commlens/engine/quantize.hpp"

#include <gtest/gtest.h>

#include "commlens/frameworks/commlens/flat_units.hpp"

namespace commlens::engine {
namespace {

// 127 * 2 is the largest of the block, so the scale is 2 and even numbers are kept exactly.
TEST(Quantized, Int8KeepsMultiplesOfTheScaleExactly) {
  const torch::Tensor rows = torch::tensor({{254.0F, -254.0F, 2.0F, 0.0F, -6.0F}});
  const torch::Tensor bytes = quantized(rows, QuantizedBits::int8);
  EXPECT_EQ(bytes.sizes(), (std::vector<std::int64_t>{1, 9}));  // 5 values, one scale
  EXPECT_TRUE(torch::equal(dequantized(bytes, 5, QuantizedBits::int8), rows));
}

TEST(Quantized, Int4PacksTwoValuesInAByte) {
  const torch::Tensor rows = torch::tensor({{7.0F, -7.0F, 3.0F}, {14.0F, 0.0F, -2.0F}});
  const torch::Tensor bytes = quantized(rows, QuantizedBits::int4);
  EXPECT_EQ(bytes.sizes(), (std::vector<std::int64_t>{2, 6}));  // 2 bytes of values, one scale
  EXPECT_EQ(bytes[0][0].item<int>(), 15 + 16 * 1);              // 7 + 8 and -7 + 8
  EXPECT_TRUE(torch::equal(dequantized(bytes, 3, QuantizedBits::int4), rows));
}

TEST(Quantized, EachBlockHasItsOwnScale) {
  torch::Tensor rows = torch::full({1, 300}, 1000.0F);
  rows.narrow(1, 256, 44).fill_(0.001F);
  const torch::Tensor bytes = quantized(rows, QuantizedBits::int8);
  EXPECT_EQ(bytes.size(1), 300 + 2 * 4);
  EXPECT_TRUE(torch::allclose(dequantized(bytes, 300, QuantizedBits::int8), rows, 1e-6));
}

TEST(Quantized, ErrorIsAtMostHalfAStep) {
  torch::manual_seed(7);
  const torch::Tensor rows = torch::randn({3, 1001});
  for (const auto& [bits, largest] : {std::pair{QuantizedBits::int8, 127.0}, {QuantizedBits::int4, 7.0}}) {
    const torch::Tensor error = (dequantized(quantized(rows, bits), 1001, bits) - rows).abs().max();
    EXPECT_LE(error.item<double>(), rows.abs().max().item<double>() / largest / 2 * 1.001);
  }
}

TEST(Quantized, ZerosStayZeros) {
  const torch::Tensor rows = torch::zeros({2, 10});
  EXPECT_TRUE(torch::equal(dequantized(quantized(rows, QuantizedBits::int4), 10, QuantizedBits::int4), rows));
}

TEST(Quantized, SizesAreThoseTheRulesPredict) {
  for (const std::int64_t count : {1, 2, 255, 256, 257, 1000}) {
    const torch::Tensor rows = torch::ones({1, count});
    EXPECT_EQ(quantized(rows, QuantizedBits::int8).size(1), int8_bytes(count)) << count;
    EXPECT_EQ(quantized(rows, QuantizedBits::int4).size(1), int4_bytes(count)) << count;
  }
  EXPECT_EQ(int8_bytes(257), 257 + 8);
  EXPECT_EQ(int4_bytes(257), 129 + 8);
}

}  // namespace
}  // namespace commlens::engine
