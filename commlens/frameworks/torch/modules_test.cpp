#include "commlens/frameworks/torch/modules.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "commlens/frameworks/torch/ddp.hpp"

namespace commlens::pytorch {
namespace {

Job two_layers() {
  Job job;
  job.model.family = Family::llama;
  job.model.positions = Positions::rotary;
  job.model.layers = 2;
  job.model.hidden = 8;
  job.model.heads = job.model.kv_heads = 2;
  job.model.head_dim = 4;
  job.model.ffn_hidden = 6;
  job.model.vocab = 11;
  job.model.tied_embeddings = true;
  return job;
}

std::vector<std::string> trainable(const Job& job) {
  std::vector<std::string> names;
  for (const Module& module : stage_modules(job, 0, 1)) {
    for (const Parameter& parameter : module.parameters) {
      if (parameter.is_trainable) {
        names.push_back(parameter.name);
      }
    }
  }
  return names;
}

TEST(StageLayers, AreEquallyManyWhereTheyDivide) {
  EXPECT_EQ(stage_layers(32, 0, 4), (LayerRange{0, 8}));
  EXPECT_EQ(stage_layers(32, 3, 4), (LayerRange{24, 8}));
  EXPECT_EQ(stage_layers(5, 0, 1), (LayerRange{0, 5}));
}

/// Llama 3 405B, section 3.3.2 of arXiv 2407.21783: the first and the last stage have one layer less.
TEST(StageLayers, CountTheEmbeddingAndTheHeadWhereTheyDoNot) {
  EXPECT_EQ(stage_layers(126, 0, 16), (LayerRange{0, 7}));
  EXPECT_EQ(stage_layers(126, 1, 16), (LayerRange{7, 8}));
  EXPECT_EQ(stage_layers(126, 15, 16), (LayerRange{119, 7}));
  // Five layers and two ends in three stages: 3, 2, 2 of the seven.
  EXPECT_EQ(stage_layers(5, 0, 3), (LayerRange{0, 2}));
  EXPECT_EQ(stage_layers(5, 1, 3), (LayerRange{2, 2}));
  EXPECT_EQ(stage_layers(5, 2, 3), (LayerRange{4, 1}));
  EXPECT_LT(stage_layers(3, 0, 4).count, 2);
}

TEST(TorchModules, SequenceParallelismTrainsFrozenNorms) {
  Job job = two_layers();
  job.model.frozen = {"*"};
  EXPECT_TRUE(trainable(job).empty());
  job.layout.tp = 2;
  EXPECT_TRUE(trainable(job).empty());
  job.layout.sequence_parallel = true;
  EXPECT_EQ(trainable(job),
            (std::vector<std::string>{"layers.0.attention_norm.weight", "layers.0.ffn_norm.weight",
                                      "layers.1.attention_norm.weight", "layers.1.ffn_norm.weight",
                                      "norm.weight"}));
}

/// Seven matrices of each of two layers and the two tables (tensor/parallel/style.py of the wheels of 2.10.0
/// and 2.11.0; recorded with 2.9.1, torch_recorded/tp2_fsdp2_frozen_2.9).
TEST(TorchModules, UpTo210WhatTensorRanksSplitIsTrainedAgain) {
  Job job = two_layers();
  job.model.frozen = {"*"};
  job.layout.tp = 2;
  job.framework = "torch-fsdp";
  job.framework_version = "2.10.0";
  EXPECT_EQ(trainable(job).size(), 2U * 7 + 2);
  job.framework_version = "2.11.0";
  EXPECT_TRUE(trainable(job).empty());
}

TEST(TorchModules, TensorRanksUntieTheEmbeddings) {
  Job job = two_layers();
  EXPECT_TRUE(stage_modules(job, 0, 1).back().parameters.empty());
  job.layout.tp = 2;
  ASSERT_EQ(stage_modules(job, 0, 1).back().parameters.size(), 1U);
  EXPECT_EQ(stage_modules(job, 0, 1).back().parameters.front().rows, 6);  // 11 rows over 2 ranks, padded
}

// 40 bytes reach the first limit at once; then 60 and 80 reach 100; 16-bit ones are counted apart; what
// remains comes last, of the type that came last first.
TEST(TorchBuckets, CloseWhereTheirBytesReachTheLimit) {
  const std::vector<Bucket> buckets = assigned({{10, DType::fp32},
                                                {15, DType::fp32},
                                                {10, DType::bf16},
                                                {20, DType::fp32},
                                                {5, DType::fp32},
                                                {30, DType::bf16}},
                                               {Bytes{40}, Bytes{100}});
  std::vector<std::int64_t> elements;
  for (const Bucket& bucket : buckets) {
    elements.push_back(bucket.elements);
  }
  EXPECT_EQ(elements, (std::vector<std::int64_t>{10, 35, 40, 5}));
}

}  // namespace
}  // namespace commlens::pytorch
