#include "commlens/engine/layers/cross_entropy.hpp"

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "commlens/engine/layers/test_model.hpp"

namespace commlens::engine {
namespace {

TEST(CrossEntropy, OfTwoEqualLogitsIsTheLogarithmOfTwo) {
  const torch::Tensor leaf = torch::zeros({1, 2}, torch::requires_grad());
  const torch::Tensor loss = cross_entropy(leaf * 1.0, torch::tensor({1}, torch::kInt64), nullptr);
  loss.backward();
  EXPECT_FLOAT_EQ(loss.item<float>(), 0.69314718F);
  EXPECT_TRUE(torch::equal(leaf.grad(), torch::tensor({{0.5F, -0.5F}})));
}

TEST(CrossEntropy, TheMeanOverTokensDividesTheirGradients) {
  const torch::Tensor leaf = torch::zeros({4, 2}, torch::requires_grad());
  cross_entropy(leaf * 1.0, torch::tensor({0, 1, 0, 1}, torch::kInt64), nullptr).backward();
  EXPECT_TRUE(torch::equal(leaf.grad().select(1, 0), torch::tensor({-0.125F, 0.125F, -0.125F, 0.125F})));
}

TEST(CrossEntropy, AScaledLossScalesTheGradient) {
  const torch::Tensor leaf = torch::zeros({1, 2}, torch::requires_grad());
  (cross_entropy(leaf * 1.0, torch::tensor({0}, torch::kInt64), nullptr) * 0.25).backward();
  EXPECT_TRUE(torch::equal(leaf.grad(), torch::tensor({{-0.125F, 0.125F}})));
}

TEST(CrossEntropy, HugeLogitsDoNotOverflow) {
  const torch::Tensor leaf = torch::tensor({{1000.0F, 1000.0F, -1000.0F}}, torch::requires_grad());
  const torch::Tensor loss = cross_entropy(leaf * 1.0, torch::tensor({0}, torch::kInt64), nullptr);
  loss.backward();
  EXPECT_FLOAT_EQ(loss.item<float>(), 0.69314718F);
  EXPECT_TRUE(torch::equal(leaf.grad(), torch::tensor({{-0.5F, 0.5F, 0.0F}})));
}

TEST(CrossEntropy, GradientIsTheSlopeOfTheLoss) {
  const at::Generator generator = at::detail::createCPUGenerator(3);
  const torch::Tensor logits = torch::randn({3, 5}, generator, torch::kFloat64);
  const torch::Tensor targets = torch::tensor({4, 0, 2}, torch::kInt64);
  const torch::Tensor leaf = logits.clone().requires_grad_();
  cross_entropy(leaf * 1.0, targets, nullptr).backward();
  const auto loss_at = [&](std::int64_t row, std::int64_t column, double step) {
    const torch::Tensor moved = logits.clone();
    moved[row][column] += step;
    return cross_entropy(moved, targets, nullptr).item<double>();
  };
  for (std::int64_t row = 0; row < 3; ++row) {
    for (std::int64_t column = 0; column < 5; ++column) {
      const double slope = (loss_at(row, column, 1e-5) - loss_at(row, column, -1e-5)) / 2e-5;
      EXPECT_NEAR(leaf.grad()[row][column].item<double>(), slope, 1e-8) << row << " " << column;
    }
  }
}

/// 40 tokens of 50,304 ids: more than one piece.
void expect_same_as_libtorch(torch::ScalarType type, double tolerance) {
  const at::Generator generator = at::detail::createCPUGenerator(4);
  const torch::Tensor logits = torch::randn({40, 50304}, generator).to(type);
  const torch::Tensor targets = torch::randint(0, 50304, {40}, generator, torch::kInt64);
  const torch::Tensor theirs = logits.clone().requires_grad_();
  const torch::Tensor expected = torch::nn::functional::cross_entropy(theirs.to(torch::kFloat32), targets);
  expected.backward();
  const torch::Tensor ours = logits.clone().requires_grad_();
  const torch::Tensor loss = cross_entropy(ours * 1.0, targets, nullptr);
  loss.backward();
  EXPECT_EQ(test::difference("loss", loss, expected, 1e-6), "");
  EXPECT_TRUE(
      torch::allclose(ours.grad().to(torch::kFloat32), theirs.grad().to(torch::kFloat32), tolerance, 1e-12));
}

TEST(CrossEntropy, OfALargeVocabularyIsLibTorchs) { expect_same_as_libtorch(torch::kFloat32, 1e-4); }

TEST(CrossEntropy, InBf16IsLibTorchsInFp32RoundedOnce) {
  expect_same_as_libtorch(torch::kBFloat16, 1.0 / 128);
}

TEST(CrossEntropy, WithoutGradientsTheLossIsTheSame) {
  const torch::Tensor logits = torch::tensor({{0.0F, std::log(3.0F)}});
  const torch::NoGradGuard no_grad;
  EXPECT_FLOAT_EQ(cross_entropy(logits, torch::tensor({1}, torch::kInt64), nullptr).item<float>(),
                  std::log(4.0F / 3.0F));
}

TEST(CrossEntropy, PaddingHasNoProbabilityAndNoGradient) {
  const torch::Tensor leaf = torch::tensor({{0.0F, 0.0F, 5.0F, 9.0F}}, torch::requires_grad());
  const torch::Tensor loss = cross_entropy(leaf * 1.0, torch::tensor({1}, torch::kInt64), nullptr, 2);
  loss.backward();
  EXPECT_FLOAT_EQ(loss.item<float>(), 0.69314718F);
  EXPECT_TRUE(torch::equal(leaf.grad(), torch::tensor({{0.5F, -0.5F, 0.0F, 0.0F}})));
}

TEST(CrossEntropy, ARankMayHoldPaddingOnly) {
  // 3 ids on 4 ranks of 2 columns each: rank 1 holds one id and one column of padding, ranks 2 and 3 only
  // padding.
  test::as_ranks(4, [](Communicator& tp) {
    const torch::Tensor leaf = torch::full({1, 2}, 7.0F, torch::requires_grad());
    const torch::Tensor loss = cross_entropy(leaf * 1.0, torch::tensor({0}, torch::kInt64), &tp, 3);
    loss.backward();
    EXPECT_FLOAT_EQ(loss.item<float>(), 1.0986123F);  // ln 3
    const std::vector<std::vector<float>> expected = {{-2.0F / 3, 1.0F / 3}, {1.0F / 3, 0}, {0, 0}, {0, 0}};
    const std::vector<float>& own = expected[static_cast<std::size_t>(tp.rank().value)];
    EXPECT_NEAR(leaf.grad()[0][0].item<float>(), own[0], 1e-6);
    EXPECT_NEAR(leaf.grad()[0][1].item<float>(), own[1], 1e-6);
  });
}

TEST(CrossEntropy, ASplitVocabularyGivesTheSameInBf16) {
  const at::Generator generator = at::detail::createCPUGenerator(5);
  const torch::Tensor logits = torch::randn({6, 8}, generator).to(torch::kBFloat16);
  const torch::Tensor targets = torch::tensor({0, 7, 3, 4, 5, 1}, torch::kInt64);
  const torch::Tensor leaf = logits.clone().requires_grad_();
  const torch::Tensor expected = cross_entropy(leaf * 1.0, targets, nullptr);
  expected.backward();
  test::as_ranks(4, [&](Communicator& tp) {
    const std::int64_t first = 2 * tp.rank().value;
    const torch::Tensor part = logits.narrow(1, first, 2).clone().requires_grad_();
    const torch::Tensor loss = cross_entropy(part * 1.0, targets, &tp);
    loss.backward();
    EXPECT_EQ(test::difference("loss", loss, expected, 1e-6), "");
    EXPECT_EQ(test::difference("gradient", part.grad(), leaf.grad().narrow(1, first, 2), 1.0 / 128), "");
  });
}

}  // namespace
}  // namespace commlens::engine
