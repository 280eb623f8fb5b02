#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "commlens/engine/layers/module_forward.hpp"

namespace commlens::engine {
namespace {

constexpr std::uint64_t k_seed = 1234;

ModelConfig small_model() {
  ModelConfig model;
  model.layers = 8;
  return model;
}

/// The part of a parameter on one of `ranks` ranks.
HeldParameter held(std::string name, std::vector<std::int64_t> whole, TensorSplit split, std::int64_t ranks) {
  HeldParameter parameter;
  parameter.name = std::move(name);
  parameter.whole = whole;
  parameter.shape = std::move(whole);
  parameter.split = split;
  if (split != TensorSplit::replicated) {
    parameter.shape.at(split == TensorSplit::column ? 0 : 1) /= ranks;
  }
  return parameter;
}

torch::Tensor whole_of(const std::string& name, const std::vector<std::int64_t>& shape,
                       std::uint64_t seed = k_seed) {
  return initial_parameter(held(name, shape, TensorSplit::replicated, 1), small_model(), seed, 1, 0);
}

TEST(InitialParameter, RanksHoldThePartsOfOneTensor) {
  const std::vector<std::pair<std::string, TensorSplit>> cases{{"wte.weight", TensorSplit::column},
                                                               {"layers.0.qkv.weight", TensorSplit::column},
                                                               {"layers.0.fc1.weight", TensorSplit::column},
                                                               {"layers.0.proj.weight", TensorSplit::row},
                                                               {"layers.0.fc2.weight", TensorSplit::row}};
  for (const auto& [name, split] : cases) {
    for (const std::int64_t ranks : {2, 4}) {
      std::vector<torch::Tensor> parts;
      for (std::int64_t rank = 0; rank < ranks; ++rank) {
        const HeldParameter parameter = held(name, {600, 24}, split, ranks);
        parts.push_back(initial_parameter(parameter, small_model(), k_seed, ranks, rank));
        EXPECT_TRUE(parts.back().is_contiguous());
      }
      const torch::Tensor joined = torch::cat(parts, split == TensorSplit::column ? 0 : 1);
      EXPECT_TRUE(torch::equal(joined, whole_of(name, {600, 24}))) << name << " over " << ranks;
    }
  }
}

TEST(InitialParameter, RowsDoNotDependOnThePaddingOfTheVocabulary) {
  const torch::Tensor padded = whole_of("wte.weight", {1024, 16});
  for (const std::int64_t rows : {1, 7, 255, 256, 257, 1000, 1023}) {
    EXPECT_TRUE(torch::equal(whole_of("wte.weight", {rows, 16}), padded.narrow(0, 0, rows))) << rows;
  }
}

TEST(InitialParameter, BiasesAreZeroAndNormsAreOne) {
  EXPECT_TRUE(torch::equal(whole_of("layers.0.qkv.bias", {6}), torch::zeros({6})));
  EXPECT_TRUE(torch::equal(whole_of("layers.0.ln1.weight", {6}), torch::ones({6})));
  EXPECT_TRUE(torch::equal(whole_of("layers.0.ln1.bias", {6}), torch::zeros({6})));
}

TEST(InitialParameter, MatricesAreNormalAndSmallerWhereAResidualEnds) {
  // 0.02 / sqrt(2 x 8 layers) = 0.005; a million values: the deviation is known to 0.1 %.
  for (const auto& [name, deviation] :
       std::vector<std::pair<std::string, double>>{{"wte.weight", 0.02},
                                                   {"layers.3.qkv.weight", 0.02},
                                                   {"layers.3.proj.weight", 0.005},
                                                   {"layers.3.fc1.weight", 0.02},
                                                   {"layers.3.fc2.weight", 0.005}}) {
    const torch::Tensor values = whole_of(name, {1000, 1000});
    EXPECT_NEAR(values.std().item<double>(), deviation, 0.005 * deviation) << name;
    EXPECT_NEAR(values.mean().item<double>(), 0.0, 0.005 * deviation) << name;
  }
}

/// GPT-NeoX's megatron/model/init_functions.py, by hand: 8 layers, h = 250, matrices of 1000 x 1000.
TEST(InitialParameter, MethodsHaveTheDeviationsOfGptNeoX) {
  const std::vector<std::pair<InitMethod, double>> rows{
      {InitMethod::normal, 0.01},                // the configuration's
      {InitMethod::scaled_normal, 0.0025},       // / sqrt(2 x 8)
      {InitMethod::small, 0.04},                 // sqrt(2 / (5 x 250))
      {InitMethod::wang, 0.0158114},             // 2 / 8 / sqrt(250)
      {InitMethod::xavier_normal, 0.0316228},    // sqrt(2 / 2000)
      {InitMethod::xavier_uniform, 0.0316228}};  // uniform up to sqrt(6 / 2000)
  for (const auto& [method, deviation] : rows) {
    for (const bool ends_a_residual : {false, true}) {
      ModelConfig model = small_model();
      model.hidden = 250;
      model.initialisation.deviation = 0.01;
      (ends_a_residual ? model.initialisation.output_method : model.initialisation.method) = method;
      const std::string name = ends_a_residual ? "layers.3.fc2.weight" : "layers.3.fc1.weight";
      const torch::Tensor values =
          initial_parameter(held(name, {1000, 1000}, TensorSplit::replicated, 1), model, k_seed, 1, 0);
      EXPECT_NEAR(values.std().item<double>(), deviation, 0.005 * deviation)
          << name << static_cast<int>(method);
      const double largest = values.abs().max().item<double>();
      const double bound = std::sqrt(3.0) * deviation;
      EXPECT_EQ(largest <= bound * 1.000001, method == InitMethod::xavier_uniform)
          << static_cast<int>(method);
    }
  }
}

TEST(InitialParameter, ThePaddingOfTheVocabularyDecidesNothing) {
  ModelConfig model = small_model();
  model.raw_vocab = 100;
  model.initialisation.method = InitMethod::xavier_normal;
  const auto drawn = [&](std::int64_t rows) {
    return initial_parameter(held("wte.weight", {rows, 16}, TensorSplit::replicated, 1), model, k_seed, 1, 0);
  };
  EXPECT_TRUE(torch::equal(drawn(128).narrow(0, 0, 100), drawn(100)));
}

TEST(InitialParameter, NamesAndSeedsAndBlocksOfRowsDiffer) {
  const torch::Tensor one = whole_of("layers.0.qkv.weight", {512, 8});
  EXPECT_FALSE(torch::equal(one, whole_of("layers.1.qkv.weight", {512, 8})));
  EXPECT_FALSE(torch::equal(one, whole_of("layers.0.qkv.weight", {512, 8}, k_seed + 1)));
  EXPECT_FALSE(torch::equal(one.narrow(0, 0, 256), one.narrow(0, 256, 256)));
  EXPECT_TRUE(torch::equal(one, whole_of("layers.0.qkv.weight", {512, 8})));
}

}  // namespace
}  // namespace commlens::engine
