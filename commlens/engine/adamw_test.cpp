#include "commlens/engine/adamw.hpp"

#include <cmath>

#include <gtest/gtest.h>

namespace commlens::engine {
namespace {

TEST(Adamw, FirstStepMovesByTheLearningRateWhateverTheGradient) {
  // m = 0.1 g, v = 0.05 g^2, both divided by their corrections: g / |g|.
  for (const float gradient : {1e-3F, 1.0F, -250.0F}) {
    const torch::Tensor values = torch::full({1}, 2.0F);
    adamw({.rate = 0.5, .weight_decay = 0.1, .correction1 = 0.1, .correction2 = 0.05},
          torch::full({1}, gradient), values, torch::zeros({1}), torch::zeros({1}));
    const double expected = 2.0 * (1 - 0.5 * 0.1) - 0.5 * (gradient > 0 ? 1 : -1);
    EXPECT_NEAR(values.item<float>(), expected, 1e-5) << gradient;
  }
}

TEST(Adamw, IsLibTorchsOverManySteps) {
  const at::Generator generator = at::detail::createCPUGenerator(11);
  const torch::Tensor start = torch::randn({200'001}, generator);  // more than one thread's part
  const torch::Tensor theirs = start.clone().requires_grad_();
  torch::optim::AdamW optimizer(
      {theirs}, torch::optim::AdamWOptions(0.01).betas({0.8, 0.97}).eps(1e-6).weight_decay(0.3));
  const torch::Tensor ours = start.clone();
  const torch::Tensor first = torch::zeros_like(ours);
  const torch::Tensor second = torch::zeros_like(ours);
  for (int count = 1; count <= 5; ++count) {
    const torch::Tensor gradient = torch::randn({200'001}, generator);
    theirs.mutable_grad() = gradient;
    optimizer.step();
    adamw({.rate = 0.01,
           .beta1 = 0.8,
           .beta2 = 0.97,
           .epsilon = 1e-6,
           .weight_decay = 0.3,
           .gradient_scale = 0.5,
           .correction1 = 1 - std::pow(0.8, count),
           .correction2 = 1 - std::pow(0.97, count)},
          gradient * 2.0, ours, first, second);
  }
  EXPECT_TRUE(torch::allclose(ours, theirs.detach(), 1e-5, 1e-6));
}

}  // namespace
}  // namespace commlens::engine
