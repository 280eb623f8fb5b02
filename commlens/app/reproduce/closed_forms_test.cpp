#include "commlens/app/reproduce/closed_forms.hpp"

#include <gtest/gtest.h>

namespace commlens::study {
namespace {

TEST(ClosedForms, ExpertsExchangeTokens) {
  // Mixtral 8x7B: 4,096 tokens x 2 experts x 4,096 x 2 bytes = 64 MiB, four times in 32 layers, 7/8 of it.
  const ClosedForm form =
      expert_exchanges({.layers = 32, .tokens = 4096, .top_k = 2, .hidden = 4096, .ep = 8});
  EXPECT_EQ(form.least, Bytes{67'108'864});
  EXPECT_EQ(form.calls, 128);
  EXPECT_EQ(form.wire, Bytes{7'516'192'768});
  // Capacity 1.25: 80 MiB.
  EXPECT_EQ(
      expert_exchanges({.layers = 32, .tokens = 4096, .top_k = 2, .hidden = 4096, .ep = 8, .capacity = 1.25})
          .wire,
      Bytes{9'395'240'960});
}

TEST(ClosedForms, TokensReachFewerNodesThanExperts) {
  EXPECT_DOUBLE_EQ(expected_nodes(8, 8, 2), 2);  // an expert a node
  // Four experts on two nodes, two of them: both on one node in 2 of 6 choices.
  EXPECT_NEAR(expected_nodes(4, 2, 2), 2 * (1 - 1.0 / 6), 1e-12);
  EXPECT_DOUBLE_EQ(expected_nodes(256, 1, 8), 1);
}

TEST(ClosedForms, ContextRanksSendKeysAndValues) {
  // Llama-3 8B, 8,192 tokens on four ranks: keys of 1,024 x 8,192 x 2 bytes = 16 MiB a layer.
  const ContextLayers llama{.layers = 32, .sequence = 8192, .hidden = 4096, .kv_hidden = 1024, .cp = 4};
  EXPECT_EQ(context_ring(llama).wire, Bytes{2'415'919'104});           // 6 x 16 MiB x 3/4 x 32
  EXPECT_EQ(context_gather(llama, false).wire, Bytes{1'610'612'736});  // 4 x 16 MiB x 3/4 x 32
  EXPECT_EQ(context_gather(llama, true).wire, Bytes{2'415'919'104});
  EXPECT_EQ(context_ulysses(llama).wire, Bytes{2'013'265'920});  // 2 x 10,240 x 2,048 x 2 x 3/4 x 32
}

TEST(ClosedForms, HybridShardsKeepMostInsideTheGroup) {
  EXPECT_EQ(hybrid_inside({1'000'000}, 8).wire, Bytes{5'250'000});
  EXPECT_EQ(hybrid_between({1'000'000}, 8, 2).wire, Bytes{250'000});
}

}  // namespace
}  // namespace commlens::study
