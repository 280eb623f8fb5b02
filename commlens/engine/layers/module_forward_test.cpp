#include "commlens/engine/layers/module_forward.hpp"

#include <gtest/gtest.h>

#include "commlens/engine/layers/test_model.hpp"

namespace commlens::engine {
namespace {

using test::Parameters;
using test::Variant;

LayerContext context_of(const Variant& variant, Communicator* tp = nullptr) {
  LayerContext context =
      make_layer_context(test::model_of(variant), test::k_rotary_fraction, torch::Device(torch::kCPU));
  context.tp = tp;
  context.sequence_parallel = variant.sequence_parallel;
  context.selective_recompute = variant.selective;
  return context;
}

const std::vector<Variant> k_variants{
    {.positions = Positions::rotary},
    {.positions = Positions::learned},
    {.positions = Positions::none},
    {.positions = Positions::rotary, .parallel_residual = true},
    {.positions = Positions::learned, .tied = true},
    {.positions = Positions::rotary, .selective = true},
    {.positions = Positions::alibi},
    {.positions = Positions::alibi, .parallel_residual = true, .selective = true},
    {.positions = Positions::sinusoidal},
    {.positions = Positions::rotary, .norm_epsilon = 0.1, .rotary_base = 100},
    {.activation = Activation::gelu_tanh},
    {.activation = Activation::gelu_sigmoid},
    {.activation = Activation::relu},
    {.activation = Activation::silu},
    {.activation = Activation::mish},
    {.activation = Activation::softsign},
};

TEST(ModuleForward, LossAndGradientsAreThoseOfPlainFormulas) {
  for (const Variant& variant : k_variants) {
    const Parameters ours = test::drawn_parameters(variant);
    const Parameters plain = test::drawn_parameters(variant, torch::kFloat64);
    const torch::Tensor loss = test::loss_of(context_of(variant), ours);
    const torch::Tensor expected = test::plain_loss_of(test::model_of(variant), plain);
    loss.backward();
    expected.backward();
    EXPECT_EQ(test::difference("loss", loss, expected.to(torch::kFloat32), 1e-6), "")
        << test::text_of(variant);
    EXPECT_EQ(test::differences(test::gradients_of(ours), test::gradients_of(plain), 1e-5), "")
        << test::text_of(variant);
  }
}

TEST(ModuleForward, SlopesOfAlibiAreThoseOfThePaper) {
  // arXiv 2108.12409: 8 heads from 1/2 to 1/256; 12 take these and 2^-0.5, 2^-1.5, 2^-2.5, 2^-3.5 of 16
  // heads.
  const std::vector<double> eight{0.5, 0.25, 0.125, 0.0625, 0.03125, 0.015625, 0.0078125, 0.00390625};
  EXPECT_EQ(alibi_slopes(8), eight);
  const std::vector<double> twelve = alibi_slopes(12);
  ASSERT_EQ(twelve.size(), 12U);
  EXPECT_TRUE(std::equal(eight.begin(), eight.end(), twelve.begin()));
  EXPECT_NEAR(twelve[8], 0.70710678, 1e-8);
  EXPECT_NEAR(twelve[9], 0.35355339, 1e-8);
  EXPECT_NEAR(twelve[11], 0.08838835, 1e-8);
  EXPECT_EQ(alibi_slopes(1), std::vector<double>{0.00390625});
}

TEST(ModuleForward, InDoublePrecisionABlockIsThePlainFormula) {
  // Angles are kept in fp32.
  const Variant variant{.positions = Positions::rotary};
  const Parameters parameters = test::drawn_parameters(variant, torch::kFloat64);
  const torch::Tensor input = test::drawn_parameters({.positions = Positions::learned}, torch::kFloat64)
                                  .embedding[1]
                                  .detach()
                                  .narrow(0, 0, test::k_sequence)
                                  .unsqueeze(0);
  EXPECT_EQ(test::difference("block", block_forward(context_of(variant), parameters.block, input),
                             test::plain_block(test::model_of(variant), parameters.block, input), 1e-7),
            "");
}

TEST(ModuleForward, LossInBf16IsCloseToFp32AndItsTypeIsFp32) {
  const Variant variant{.positions = Positions::rotary};
  const Parameters half = test::drawn_parameters(variant, torch::kBFloat16);
  const torch::Tensor loss = test::loss_of(context_of(variant), half);
  loss.backward();
  EXPECT_EQ(loss.scalar_type(), torch::kFloat32);
  EXPECT_EQ(half.block[2].grad().scalar_type(), torch::kBFloat16);
  EXPECT_EQ(test::difference("loss", loss,
                             test::loss_of(context_of(variant), test::drawn_parameters(variant)), 2e-2),
            "");
}

TEST(ModuleForward, GradientsInBf16AreCloseToThoseInFp32) {
  const Variant variant{.positions = Positions::rotary};
  const Parameters half = test::drawn_parameters(variant, torch::kBFloat16);
  const Parameters full = test::drawn_parameters(variant);
  test::loss_of(context_of(variant), half).backward();
  test::loss_of(context_of(variant), full).backward();
  for (std::size_t i = 0; i < full.block.size(); ++i) {
    const torch::Tensor expected = full.block[i].grad();
    const torch::Tensor off = half.block[i].grad().to(torch::kFloat32) - expected;
    EXPECT_LT((off.norm() / expected.norm()).item<double>(), 0.05) << "parameter " << i;
  }
}

TEST(ModuleForward, SelectiveRecomputationIsTheSameBitForBit) {
  for (const torch::ScalarType type : {torch::kFloat32, torch::kBFloat16}) {
    const Parameters kept = test::drawn_parameters({}, type);
    const Parameters recomputed = test::drawn_parameters({}, type);
    const torch::Tensor loss = test::loss_of(context_of({}), kept);
    const torch::Tensor again = test::loss_of(context_of({.selective = true}), recomputed);
    loss.backward();
    again.backward();
    EXPECT_TRUE(torch::equal(loss, again)) << type;
    EXPECT_EQ(test::differences(test::gradients_of(recomputed), test::gradients_of(kept), 0.0), "") << type;
  }
}

TEST(ModuleForward, AShorterSequenceIsThePrefixOfTheLongerOne) {
  const Variant variant{.positions = Positions::rotary};
  const Parameters parameters = test::drawn_parameters(variant);
  const torch::NoGradGuard no_grad;
  const LayerContext context = context_of(variant);
  const torch::Tensor input = embedding_forward(context, parameters.embedding, test::drawn_tokens());
  const torch::Tensor whole = block_forward(context, parameters.block, input);
  const torch::Tensor prefix = block_forward(context, parameters.block, input.narrow(1, 0, 5).contiguous());
  EXPECT_EQ(test::difference("prefix", prefix, whole.narrow(1, 0, 5), 1e-6), "");
}

}  // namespace
}  // namespace commlens::engine
