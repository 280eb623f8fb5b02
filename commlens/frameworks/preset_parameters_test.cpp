#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "commlens/frameworks/huggingface/reader.hpp"
#include "commlens/frameworks/neox/reader.hpp"
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
  ASSERT_EQ(rows.size(), neox::preset_names().size());
  for (const CountRow& row : rows) {
    const ModelConfig model = preset(row.name).value().model;
    EXPECT_EQ(ParameterList(model).total().value, row.parameters) << row.name;
    EXPECT_EQ(parameter_count(model).value, row.parameters) << row.name;
    EXPECT_EQ(paper_parameter_count(model).value, row.equation_1) << row.name;
  }
}

/// Of the model classes of transformers 5.23 on the published config.json, each shared tensor once, buffers
/// left out; those of Llama 1 and 2, Mistral, Qwen 2.5 and the small Qwen 3, Mixtral-8x22B and DeepSeek-V2
/// from the tensors of their published checkpoints.
TEST(ParameterCount, EqualsThePublishedOnes) {
  const std::map<std::string_view, std::int64_t> published = {
      {"llama-7b", 6'738'415'616},          {"llama-13b", 13'015'864'320},
      {"llama-65b", 65'285'660'672},        {"llama2-7b", 6'738'415'616},
      {"llama2-13b", 13'015'864'320},       {"llama2-70b", 68'976'648'192},
      {"llama3-8b", 8'030'261'248},         {"llama3-70b", 70'553'706'496},
      {"llama3-405b", 405'853'388'800},     {"llama3.2-1b", 1'235'814'400},
      {"llama3.2-3b", 3'212'749'824},       {"mistral-7b", 7'241'732'096},
      {"qwen2.5-0.5b", 494'032'768},        {"qwen2.5-7b", 7'615'616'512},
      {"qwen2.5-14b", 14'770'033'664},      {"qwen2.5-32b", 32'763'876'352},
      {"qwen2.5-72b", 72'706'203'648},      {"qwen3-0.6b", 596'049'920},
      {"qwen3-1.7b", 1'720'574'976},        {"qwen3-4b", 4'022'468'096},
      {"qwen3-8b", 8'190'735'360},          {"qwen3-14b", 14'768'307'200},
      {"qwen3-32b", 32'762'123'264},        {"qwen3-30b-a3b", 30'532'122'624},
      {"qwen3-235b-a22b", 235'093'634'560}, {"mixtral-8x7b", 46'702'792'704},
      {"mixtral-8x22b", 140'620'634'112},   {"deepseek-v2-lite", 15'706'484'224},
      {"deepseek-v2", 235'741'434'880},     {"deepseek-v3", 671'026'404'352},
      {"gpt-oss-20b", 20'914'757'184},      {"gpt-oss-120b", 116'829'156'672}};
  ASSERT_EQ(published.size(), huggingface::preset_names().size());
  for (const auto& [name, parameters] : published) {
    const ModelConfig model = preset(name).value().model;
    EXPECT_EQ(ParameterList(model).total().value, parameters) << name;
    EXPECT_EQ(parameter_count(model).value, parameters) << name;
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
