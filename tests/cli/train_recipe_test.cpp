// The settings that `commlens train` takes from a configuration besides the sizes.
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/cli/program.hpp"

namespace commlens {
namespace {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

class Recipe : public TrainerTest {
 protected:
  /// Two ranks of a small GPT-NeoX model for four iterations.
  Answer train(const std::string& more, const Words& flags = {}) const {
    const std::string file =
        directory_.write("m.yml",
                         "num_layers: 2\nhidden_size: 32\nnum_attention_heads: 4\nseq_length: "
                         "16\nmax_position_embeddings: 16\n"
                         "no_weight_tying: true\ntrain_micro_batch_size_per_gpu: 2\nprecision: bfloat16\n" +
                             more);
    Words words = {"train", file,           "--ranks", "2",  "--vocab",
                   "256",   "--iterations", "4",       "-o", directory_.path("trace")};
    words.insert(words.end(), flags.begin(), flags.end());
    return commlens_with(words);
  }
  Json train_json(const std::string& more, Words flags = {}) const {
    flags.insert(flags.end(), {"--format", "json"});
    const Answer answer = train(more, flags);
    EXPECT_EQ(answer.code, 0) << answer.err;
    EXPECT_EQ(answer.err, "");
    return Json::parse(answer.out);
  }
};

std::vector<double> rates_of(const Json& run) {
  std::vector<double> rates;
  for (const Json& iteration : run["iterations"]) {
    rates.push_back(iteration["learning_rate"].get<double>());
  }
  return rates;
}

void expect_near(const std::vector<double>& found, const std::vector<double>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_NEAR(found[i], expected[i], 1e-12) << i;
  }
}

const std::string k_recipe =
    "optimizer: {type: Adam, params: {lr: 0.01, betas: [0.8, 0.97], eps: 1.0e-7}}\nmin_lr: 0.004\n"
    "lr_decay_style: linear\ntrain_iters: 10\nwarmup: 0.2\nweight_decay: 0.02\nseed: 99\n";

TEST_F(Recipe, IsThatOfTheConfiguration) {
  const Json run = train_json(k_recipe);
  expect_near(rates_of(run), {0, 0.005, 0.01, 0.00875});  // warm-up of two iterations, then 0.01 (8 - n) / 8
  EXPECT_EQ(run["seed"], 99);
  EXPECT_EQ(run["optimizer"]["beta1"], 0.8);
  EXPECT_EQ(run["optimizer"]["beta2"], 0.97);
  EXPECT_EQ(run["optimizer"]["epsilon"], 1e-7);
  EXPECT_EQ(run["optimizer"]["weight_decay"], 0.02);
}

TEST_F(Recipe, FlagsWinOverTheConfiguration) {
  const Json run = train_json(k_recipe, {"--lr", "0.1", "--min-lr", "0.05", "--warmup", "0", "--decay",
                                         "constant", "--beta1", "0.5", "--weight-decay", "0", "--seed", "3"});
  expect_near(rates_of(run), {0.1, 0.1, 0.1, 0.1});
  EXPECT_EQ(run["seed"], 3);
  EXPECT_EQ(run["optimizer"]["beta1"], 0.5);
  EXPECT_EQ(run["optimizer"]["beta2"], 0.97);
  EXPECT_EQ(run["optimizer"]["weight_decay"], 0);
}

TEST_F(Recipe, ALeastRateAboveTheRateIsRefused) {
  const Answer answer = train(k_recipe, {"--lr", "0.001"});
  EXPECT_EQ(answer.code, 2);
  EXPECT_EQ(answer.err,
            "commlens: the least learning rate 0.004 is above the learning rate 0.001; change --min-lr\n");
}

TEST_F(Recipe, WhatIsNotHonouredIsNamedInOneLine) {
  const Answer answer =
      train("attention_dropout: 0.1\nsliding_window_width: 8\noptimizer: {type: SGD, params: {lr: 0.1}}\n");
  EXPECT_EQ(answer.code, 0);
  EXPECT_EQ(answer.err,
            "commlens: warning: the trainer does otherwise than the configuration says: optimizer.type=SGD "
            "(AdamW), "
            "attention_dropout=0.1 (no dropout), sliding_window_width=8 (attention to the whole sequence)\n");
}

TEST_F(Recipe, LayersAndInitialValuesAreThoseOfTheConfiguration) {
  const auto first_loss = [&](const std::string& more) {
    return train_json(k_recipe + more)["iterations"][0]["loss"].get<double>();
  };
  const double usual = first_loss("");
  for (const char* const more :
       {"init_method_std: 0.3\n", "init_method: small_init\n", "pos_emb: alibi\ninit_method_std: 0.3\n",
        "pos_emb: sinusoidal\n", "layernorm_epsilon: 0.1\n"}) {
    EXPECT_NE(first_loss(more), usual) << more;
  }
}

}  // namespace
}  // namespace commlens
