#include "commlens/engine/layers/attention.hpp"

#include <array>
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "commlens/engine/layers/test_model.hpp"
#include "commlens/engine/tensor_memory.hpp"

namespace commlens::engine {
namespace {

/// The output of attention and the gradients of its inputs.
struct Outcome {
  torch::Tensor output;
  std::array<torch::Tensor, 3> gradients;
};

/// Random heads of `type`, the same of every type, that require gradients.
Heads drawn_heads(const AttentionShape& shape, torch::ScalarType type) {
  torch::manual_seed(7);
  const auto draw = [&] {
    return torch::randn({shape.batch, shape.heads, shape.sequence, shape.head_dim}, torch::kFloat64)
        .to(type)
        .requires_grad_(true);
  };
  return {draw(), draw(), draw()};
}

/// -inf where a token would see a later one, else minus the distance times the head's number.
torch::Tensor drawn_bias(const AttentionShape& shape, torch::ScalarType type) {
  const torch::Tensor places = torch::arange(shape.sequence, torch::kFloat64);
  const torch::Tensor distance = places.unsqueeze(1) - places.unsqueeze(0);
  const torch::Tensor slopes = torch::arange(1, shape.heads + 1, torch::kFloat64).view({-1, 1, 1});
  const torch::Tensor bias = shape.has_bias ? distance.neg() * slopes * 0.1 : distance.unsqueeze(0) * 0;
  return bias.masked_fill(distance.lt(0), -std::numeric_limits<double>::infinity()).to(type);
}

double scale_of(const AttentionShape& shape) { return 1.0 / std::sqrt(static_cast<double>(shape.head_dim)); }

Outcome outcome_of(const Heads& heads, const torch::Tensor& output) {
  const auto count = static_cast<double>(output.numel());
  const torch::Tensor weights = torch::arange(output.numel(), torch::kFloat64).view(output.sizes()) / count;
  (output * weights.to(output.scalar_type())).sum().backward();
  return {output.detach(), {heads.query.grad(), heads.key.grad(), heads.value.grad()}};
}

/// By the formula, in fp64.
Outcome plain_outcome(const AttentionShape& shape) {
  const Heads heads = drawn_heads(shape, torch::kFloat64);
  const torch::Tensor scores = heads.query.matmul(heads.key.transpose(2, 3)) * scale_of(shape);
  const torch::Tensor powers = (scores + drawn_bias(shape, torch::kFloat64)).exp();
  return outcome_of(heads, (powers / powers.sum(-1, true)).matmul(heads.value));
}

Outcome fused_outcome(const AttentionShape& shape, torch::ScalarType type) {
  const Heads heads = drawn_heads(shape, type);
  const torch::Tensor bias = shape.has_bias ? drawn_bias(shape, type) : torch::Tensor();
  return outcome_of(heads, fused_attention(heads, bias, scale_of(shape)));
}

Outcome eager_outcome(const AttentionShape& shape, torch::ScalarType type) {
  const Heads heads = drawn_heads(shape, type);
  return outcome_of(heads, core_attention(heads, drawn_bias(shape, type), scale_of(shape), false));
}

void expect_near(const Outcome& found, const Outcome& expected, double tolerance) {
  const auto is_off = [&](const torch::Tensor& a, const torch::Tensor& b) {
    return ((a.to(torch::kFloat64) - b).norm() / b.norm()).item<double>();
  };
  EXPECT_LT(is_off(found.output, expected.output), tolerance) << "output";
  for (std::size_t i = 0; i < expected.gradients.size(); ++i) {
    EXPECT_LT(is_off(found.gradients.at(i), expected.gradients.at(i)), tolerance) << "gradient " << i;
  }
}

/// Lengths below, at and above what a kernel takes at a time, heads of usual and unusual widths.
std::vector<AttentionShape> shapes(bool has_bias) {
  return {{.batch = 2, .heads = 3, .sequence = 2, .head_dim = 8, .has_bias = has_bias},
          {.batch = 2, .heads = 2, .sequence = 33, .head_dim = 64, .has_bias = has_bias},
          {.batch = 1, .heads = 2, .sequence = 512, .head_dim = 40, .has_bias = has_bias},
          {.batch = 1, .heads = 1, .sequence = 777, .head_dim = 7, .has_bias = has_bias}};
}

/// How far bf16 may be off. LibTorch 1.13 adds the products of two matrices in fp32 only where oneDNN has
/// bf16 (AVX-512); elsewhere in bf16, where 512 ones make 256.
double bf16_tolerance() {
  const auto ones = [](std::int64_t rows, std::int64_t columns) {
    return torch::ones({rows, columns}, torch::kBFloat16);
  };
  const bool adds_in_fp32 = ones(4, 512).matmul(ones(512, 4)).index({0, 0}).item<float>() == 512;
  return adds_in_fp32 ? 3e-2 : 2e-1;
}

TEST(EagerAttention, IsThatOfTheFormulaForwardAndBackward) {
  for (const bool has_bias : {false, true}) {
    for (const AttentionShape& shape : shapes(has_bias)) {
      SCOPED_TRACE(shape.sequence);
      const Outcome expected = plain_outcome(shape);
      expect_near(eager_outcome(shape, torch::kFloat64), expected, 1e-12);
      expect_near(eager_outcome(shape, torch::kFloat32), expected, 1e-5);
      expect_near(eager_outcome(shape, torch::kBFloat16), expected, bf16_tolerance());
    }
  }
}

TEST(FusedAttention, IsThatOfTheFormulaForwardAndBackward) {
  for (const bool has_bias : {false, true}) {
    for (AttentionShape shape : shapes(has_bias)) {
      SCOPED_TRACE(shape.sequence);
      for (const DType dtype : {DType::fp32, DType::bf16}) {
        shape.dtype = dtype;
        if (const Result<void> fused = check_fused_attention(shape); !fused) {
          GTEST_SKIP() << fused.error().message;
        }
      }
      const Outcome expected = plain_outcome(shape);
      expect_near(fused_outcome(shape, torch::kFloat32), expected, 1e-5);
      expect_near(fused_outcome(shape, torch::kBFloat16), expected, 3e-2);
    }
  }
}

/// Scores of 2048 x 2048 take 16 MiB, outputs of 2048 x 8 64 KiB; a kernel works on blocks of them.
TEST(FusedAttention, KeepsNoScores) {
  const AttentionShape shape{.heads = 1, .sequence = 2048, .head_dim = 8};
  if (const Result<void> fused = check_fused_attention(shape); !fused) {
    GTEST_SKIP() << fused.error().message;
  }
  const TensorMemoryScope tensors;
  fused_outcome(shape, torch::kFloat32);
  EXPECT_LT(tensors.memory().peak().value, 6 << 20);
  eager_outcome(shape, torch::kFloat32);
  EXPECT_GT(tensors.memory().peak().value, 16 << 20);
}

TEST(FusedAttention, ThatIsMissingIsNamed) {
  // No kernel takes such numbers, whatever the version.
  const Result<void> fused = check_fused_attention({.dtype = DType::int64});
  ASSERT_FALSE(fused.has_value());
  EXPECT_NE(fused.error().message.find("LibTorch " TORCH_VERSION " has no fused attention"),
            std::string::npos)
      << fused.error().message;
}

}  // namespace
}  // namespace commlens::engine
