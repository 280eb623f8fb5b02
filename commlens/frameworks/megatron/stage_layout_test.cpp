#include "commlens/frameworks/megatron/stage_layout.hpp"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "commlens/frameworks/megatron/options.hpp"

namespace commlens::megatron {
namespace {

Job job_of(std::int64_t layers, std::int64_t stages, std::int64_t chunks) {
  Job job;
  job.model.layers = layers;
  job.layout.pp = stages;
  job.layout.virtual_stages = chunks;
  return job;
}

/// "2 2|1 1": the layers of each chunk of each stage.
std::string layers_of(const Job& job) {
  const Result<StageLayouts> layouts = stage_layouts(job);
  if (!layouts) {
    return layouts.error().message;
  }
  std::string text;
  for (const std::vector<ChunkLayout>& stage : *layouts) {
    text += text.empty() ? "" : "|";
    for (const ChunkLayout& chunk : stage) {
      text += (text.empty() || text.back() == '|' ? "" : " ") + std::to_string(chunk.layers);
    }
  }
  return text;
}

TEST(MegatronStageLayout, EvenStagesHaveEqualChunks) { EXPECT_EQ(layers_of(job_of(8, 2, 2)), "2 2|2 2"); }

TEST(MegatronStageLayout, FirstAndLastStageMayDiffer) {
  Job job = job_of(6, 4, 1);
  options(job).layers_of_first_stage = 1;
  options(job).layers_of_last_stage = 1;
  EXPECT_EQ(layers_of(job), "1|2|2|1");
}

TEST(MegatronStageLayout, EmbeddingAndLossCountAsLayers) {
  Job job = job_of(94, 8, 4);
  options(job).embedding_counts_as_layer = true;
  options(job).loss_counts_as_layer = true;
  EXPECT_EQ(layers_of(job), "2 3 3 3|3 3 3 3|3 3 3 3|3 3 3 3|3 3 3 3|3 3 3 3|3 3 3 3|3 3 3 2");
}

/// Part i is chunk i / p of stage i % p.
TEST(MegatronStageLayout, WrittenLayoutsGoRoundTheStages) {
  Job job = job_of(7, 2, 3);
  options(job).stage_layout = "Et|(t|)*2,tt|t*2|L";
  EXPECT_EQ(parts_of_layout(options(job).stage_layout), 6);
  EXPECT_EQ(layers_of(job), "1 1 2|1 2 0");
}

TEST(MegatronStageLayout, WrittenLayoutsThatDoNotFitAreRefused) {
  Job job = job_of(4, 2, 1);
  for (const char* layout : {"Ett|ttx", "tt|ttL", "Ett|t", "Ett|tL", "Ettm|ttL", "E(t|*99999999999|L", "|"}) {
    options(job).stage_layout = layout;
    EXPECT_NE(layers_of(job).find("pipeline-model-parallel-layout"), std::string::npos) << layout;
  }
}

TEST(MegatronStageLayout, FinalNormFollowsTheLastLayerWithMultiTokenPrediction) {
  Job job = job_of(4, 2, 1);
  options(job).stage_layout = "Etttt|mL";
  options(job).mtp_layers = 1;
  const Result<StageLayouts> layouts = stage_layouts(job);
  ASSERT_TRUE(layouts.has_value()) << layouts.error().message;
  EXPECT_TRUE(layouts->at(0).front().has_final_norm);
  EXPECT_FALSE(layouts->at(1).front().has_final_norm);
}

}  // namespace
}  // namespace commlens::megatron
