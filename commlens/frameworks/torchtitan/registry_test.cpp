#include "commlens/frameworks/torchtitan/registry.hpp"

#include <map>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "commlens/model/parameters.hpp"

namespace commlens::torchtitan {
namespace {

/// Of the modules that torchtitan 0.3.0 builds: model_registry(flavour).model.build() on the meta device,
/// each shared tensor once.
TEST(TitanRegistry, FlavoursHaveTheParametersOfTheRealModules) {
  const std::map<std::string, std::int64_t> built = {
      {"llama3 debugmodel", 6'163'712},
      {"llama3 1B", 1'235'814'400},
      {"llama3 3B", 3'212'749'824},
      {"llama3 8B", 8'030'261'248},
      {"llama3 70B", 70'553'706'496},
      {"llama3 405B", 405'853'388'800},
      {"qwen3 debugmodel", 31'987'968},
      {"qwen3 debugmodel_non_fused_qkv", 31'987'968},
      {"qwen3 0.6B", 596'049'920},
      {"qwen3 1.7B", 1'720'574'976},
      {"qwen3 4B", 4'022'468'096},
      {"qwen3 8B", 8'190'735'360},
      {"qwen3 14B", 14'768'307'200},
      {"qwen3 32B", 32'762'123'264},
      {"qwen3 debugmodel_moe", 315'758'848},
      {"qwen3 30B-A3B", 30'532'122'624},
      {"qwen3 235B-A22B", 235'093'634'560},
      {"deepseek_v3 debugmodel", 33'014'016},
      {"deepseek_v3 16B", 15'706'484'224},
      {"deepseek_v3 236B", 235'741'434'880},
      {"deepseek_v3 671B", 671'026'404'352},
      {"gpt_oss debugmodel", 81'489'440},
      {"gpt_oss 20b", 20'914'757'184},
      {"gpt_oss 120b", 116'829'156'672},
      {"kimi_k2_7 moonlight-16B-A3B", 15'960'108'544},
  };
  std::size_t modelled = 0;
  for (const Flavour& flavour : flavours()) {
    if (!flavour.not_modelled.empty()) {
      continue;
    }
    ++modelled;
    const ModelConfig model = model_of(flavour, 2048);
    ASSERT_TRUE(built.contains(model.name)) << model.name;
    EXPECT_EQ(parameter_count(model).value, built.at(model.name)) << model.name;
    EXPECT_EQ(ParameterList(model).total().value, built.at(model.name)) << model.name;
  }
  EXPECT_EQ(modelled, built.size());
}

TEST(TitanRegistry, EveryRecipeTrainsAFlavourOfItsModule) {
  std::set<std::string> names;
  for (const Recipe& recipe : recipes()) {
    EXPECT_TRUE(names.insert(std::string(recipe.module) + ":" + std::string(recipe.name)).second)
        << recipe.name;
    if (recipe.module != "flux") {
      EXPECT_TRUE(flavour_named(recipe.module, recipe.flavour)) << recipe.name << " " << recipe.flavour;
    }
  }
  // functions of models/*/config_registry.py without helpers, of llama3 14, qwen3 15, deepseek_v3 10, gpt_oss
  // 4, kimi_k2_7 4, muse_glimmer 4, qwen3_5 11, flux 5
  EXPECT_EQ(recipes().size(), 67U);
}

TEST(TitanRegistry, FindsTheRecipeOfAFlavour) {
  const auto name_of_recipe = [](std::string_view module, std::string_view flavour) {
    const Recipe* const recipe = recipe_of(**flavour_named(module, flavour));
    return recipe == nullptr ? std::string_view() : recipe->name;
  };
  EXPECT_EQ(name_of_recipe("llama3", "8B"), "llama3_8b");
  EXPECT_EQ(name_of_recipe("llama3", "405B"), "llama3_405b");
  EXPECT_EQ(name_of_recipe("llama3", "1B"), "");
  EXPECT_EQ(name_of_recipe("qwen3", "8B"), "");
  EXPECT_EQ(name_of_recipe("qwen3", "debugmodel_moe"), "qwen3_moe_debug");
  EXPECT_EQ(name_of_recipe("deepseek_v3", "671B"), "deepseek_v3_671b");
  EXPECT_EQ(name_of_recipe("deepseek_v3", "236B"), "");
}

TEST(TitanRegistry, FindsFlavoursByTheirSizes) {
  for (const Flavour& flavour : flavours()) {
    if (flavour.not_modelled.empty() && flavour.fuses_qkv) {
      EXPECT_EQ(flavour_like(model_of(flavour, 512)), &flavour) << flavour.name;
    }
  }
  ModelConfig other = model_of(**flavour_named("llama3", "8B"), 512);
  other.layers = 31;
  EXPECT_EQ(flavour_like(other), nullptr);
}

TEST(TitanRegistry, NamesTheChoicesForAnUnknownName) {
  EXPECT_EQ(recipe_named("llama4", "llama4_debug").error().message,
            "torchtitan 0.3.0 has no module 'llama4'; choose from llama3, qwen3, deepseek_v3, gpt_oss, "
            "kimi_k2_7, muse_glimmer, qwen3_5, flux");
  EXPECT_EQ(recipe_named("gpt_oss", "gpt_oss_21b").error().message,
            "the module gpt_oss has no config 'gpt_oss_21b'; did you mean gpt_oss_20b? choose from "
            "gpt_oss_debugmodel, gpt_oss_debugmodel_flex, gpt_oss_20b, gpt_oss_120b");
  EXPECT_EQ(flavour_named("gpt_oss", "7b").error().message,
            "the module gpt_oss has no flavor '7b'; choose from debugmodel, 20b, 120b");
}

}  // namespace
}  // namespace commlens::torchtitan
