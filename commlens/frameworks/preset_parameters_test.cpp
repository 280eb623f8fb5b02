#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "commlens/frameworks/presets.hpp"
#include "commlens/model/parameters.hpp"

namespace commlens {
namespace {

ModelConfig small_gpt() {
  ModelConfig model;
  model.layers = 4;
  model.hidden = 128;
  model.heads = model.kv_heads = 4;
  model.head_dim = 32;
  model.ffn_hidden = 512;
  model.sequence = model.max_positions = 32;
  model.vocab = 1000;
  model.positions = Positions::learned;
  return model;
}

struct CountRow {
  const char* name;
  std::int64_t parameters;
  std::int64_t equation_1;
};

TEST(ParameterCount, EqualsTheTableOfGptNeoxConfigs) {  // V = 50304
  const std::vector<CountRow> rows = {
      {"19M", 70'426'624, 71'459'840},           {"49M", 113'625'600, 114'904'320},
      {"125M", 162'322'944, 163'849'728},        {"350M", 405'334'016, 407'308'288},
      {"760M", 834'493'440, 837'454'848},        {"1.3B", 1'414'647'808, 1'418'596'352},
      {"2.7B", 2'775'208'960, 2'780'042'240},    {"6.7B", 6'856'253'440, 6'863'986'688},
      {"13B", 13'100'697'600, 13'110'159'360},   {"20B", 20'552'994'816, 20'564'226'048},
      {"175B", 175'197'806'592, 175'217'074'176}};
  ASSERT_EQ(rows.size(), preset_names().size());
  for (const CountRow& row : rows) {
    const ModelConfig model = preset(row.name).value().model;
    EXPECT_EQ(ParameterList(model).total().value, row.parameters) << row.name;
    EXPECT_EQ(parameter_count(model).value, row.parameters) << row.name;
    EXPECT_EQ(paper_parameter_count(model).value, row.equation_1) << row.name;
  }
}

TEST(ParameterCount,
     OfGpt2WithTiedEmbeddings) {  // DeepSpeed PR 2012: Vh + sh + L(12h^2 + 13h) + 2h = 355,919,872
  ModelConfig model = preset("350M").value().model;
  model.positions = Positions::learned;
  model.tied_embeddings = true;
  EXPECT_EQ(ParameterList(model).total().value, 355'919'872);
  EXPECT_EQ(parameter_count(model).value, 355'919'872);
}

TEST(ParameterCount, OfTheMeasuredModel) {  // h 128, L 4, s 32, V 1000
  EXPECT_EQ(ParameterList(small_gpt()).total().value, 1'053'440);
  EXPECT_EQ(paper_parameter_count(small_gpt()).value, 1'050'880);
}

TEST(ParameterCount, OfListAndClosedFormAgreeOnEveryVariant) {
  for (int variant = 0; variant < 128; ++variant) {
    ModelConfig model = small_gpt();
    const auto has = [&](int bit) { return (variant & (1 << bit)) != 0; };
    model.gated_mlp = has(0);
    model.norm_bias = has(1);
    model.linear_bias = has(2);
    model.qkv_bias = has(3);
    model.tied_embeddings = has(4);
    model.experts = has(5) ? 3 : 0;
    model.kv_heads = has(6) ? 2 : 4;
    EXPECT_EQ(parameter_count(model), ParameterList(model).total()) << "variant " << variant;
  }
}

TEST(ParameterList, KeepsTheOrderOfNamedParameters) {  // torch's Module.named_parameters()
  ModelConfig model = small_gpt();
  model.layers = 1;
  std::vector<std::string> names;
  const ParameterList list(model);
  for (const Parameter& parameter : list.all()) {
    names.push_back(parameter.name);
  }
  EXPECT_EQ(names,
            std::vector<std::string>({"wte.weight", "wpe.weight", "layers.0.ln1.weight", "layers.0.ln1.bias",
                                      "layers.0.qkv.weight", "layers.0.qkv.bias", "layers.0.proj.weight",
                                      "layers.0.proj.bias", "layers.0.ln2.weight", "layers.0.ln2.bias",
                                      "layers.0.fc1.weight", "layers.0.fc1.bias", "layers.0.fc2.weight",
                                      "layers.0.fc2.bias", "norm.weight", "norm.bias", "head.weight"}));
}

TEST(ParameterList, DecaysMatricesAndEmbeddingsOnly) {
  std::int64_t decaying = 0;
  const ParameterList list(small_gpt());
  for (const Parameter& parameter : list.all()) {
    decaying += parameter.decays ? parameter.count.value : 0;
  }
  // 2 Vh + sh + 12 L h^2 = 256,000 + 4,096 + 786,432
  EXPECT_EQ(decaying, 1'046'528);
}

TEST(ParameterList, SplitsAsTensorParallelismDoes) {
  // L (12h^2/t + 7h/t + 6h) + 2 Vh/t + 2h + sh at t = 2: 4 (98,304 + 448 + 768) + 128,000 + 256 + 4,096
  Elements held;
  const ParameterList list(small_gpt());
  for (const Parameter& parameter : list.all()) {
    held += on_tensor_rank(parameter, 2);
  }
  EXPECT_EQ(held.value, 530'432);
}

TEST(ParameterList, MarksExperts) {
  ModelConfig model = small_gpt();
  model.layers = 1;
  model.experts = 2;
  model.gated_mlp = true;
  std::vector<std::string> experts;
  const ParameterList list(model);
  for (const Parameter& parameter : list.all()) {
    if (parameter.is_expert && !parameter.is_bias) {
      experts.push_back(parameter.name);
    }
    if (parameter.leaf == Leaf::fc1 && !parameter.is_bias) {
      EXPECT_EQ(parameter.shape, std::vector<std::int64_t>({1024, 128}));
    }
  }
  EXPECT_EQ(experts,
            std::vector<std::string>({"layers.0.experts.0.fc1.weight", "layers.0.experts.0.fc2.weight",
                                      "layers.0.experts.1.fc1.weight", "layers.0.experts.1.fc2.weight"}));
}

}  // namespace
}  // namespace commlens
