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

/// A parameter as one of `ranks` ranks holds it.
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

TEST(InitialParameter, NamesAndSeedsAndBlocksOfRowsDiffer) {
  const torch::Tensor one = whole_of("layers.0.qkv.weight", {512, 8});
  EXPECT_FALSE(torch::equal(one, whole_of("layers.1.qkv.weight", {512, 8})));
  EXPECT_FALSE(torch::equal(one, whole_of("layers.0.qkv.weight", {512, 8}, k_seed + 1)));
  EXPECT_FALSE(torch::equal(one.narrow(0, 0, 256), one.narrow(0, 256, 256)));
  EXPECT_TRUE(torch::equal(one, whole_of("layers.0.qkv.weight", {512, 8})));
}

}  // namespace
}  // namespace commlens::engine
