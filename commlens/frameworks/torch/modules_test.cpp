#include "commlens/frameworks/torch/modules.hpp"

#include <gtest/gtest.h>

namespace commlens::pytorch {
namespace {

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

}  // namespace
}  // namespace commlens::pytorch
