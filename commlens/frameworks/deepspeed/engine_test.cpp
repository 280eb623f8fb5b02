#include "commlens/frameworks/deepspeed/engine.hpp"

#include <gtest/gtest.h>

#include "commlens/frameworks/deepspeed/options.hpp"

namespace commlens::deepspeed {
namespace {

LocalParameters experts(int layers) {
  LocalParameters all;
  for (int layer = 0; layer < layers; ++layer) {
    for (const char* name : {"w1", "w2", "w3"}) {
      LocalParameter parameter;
      parameter.name = name;
      parameter.layer = layer;
      parameter.count = 14336 * 4096;  // of Mixtral 8x7B, an expert for each rank
      parameter.is_expert = parameter.decays = parameter.is_trainable = true;
      all.push_back(parameter);
    }
  }
  return all;
}

std::vector<std::size_t> sizes_of_expert_groups(const EngineRank& rank) {
  std::vector<std::size_t> sizes;
  for (const OptimizerGroup& group : optimizer_groups(rank)) {
    if (group.is_expert) {
      sizes.push_back(group.parameters.size());
    }
  }
  return sizes;
}

/// moe/utils.py:72 of 0.19.8 begins a new group where 178,956,971 elements would be passed: three of
/// 58,720,256 fit, four do not.
TEST(ExpertGroups, HoldNoMoreThanALargestNumberOfElements) {
  const Job job;
  EngineRank rank;
  rank.job = &job;
  rank.parameters = experts(2);
  EXPECT_EQ(sizes_of_expert_groups(rank), (std::vector<std::size_t>{3, 3}));
}

TEST(ExpertGroups, AreSplitByWeightDecayToo) {
  Job job;
  options(job).weight_decay_groups = true;
  EngineRank rank;
  rank.job = &job;
  rank.parameters = experts(1);
  rank.parameters.back().decays = false;
  EXPECT_EQ(sizes_of_expert_groups(rank), (std::vector<std::size_t>{2, 1}));
}

}  // namespace
}  // namespace commlens::deepspeed
