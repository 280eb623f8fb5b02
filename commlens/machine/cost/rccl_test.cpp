#include "commlens/machine/cost/rccl.hpp"

#include <gtest/gtest.h>

#include "commlens/machine/cost/rccl_tables.hpp"

namespace commlens {
namespace {

const Candidate* rccl_pair(const std::vector<Candidate>& all, const std::string& algorithm,
                           const std::string& protocol) {
  for (const Candidate& candidate : all) {
    if (candidate.algorithm == algorithm && candidate.protocol == protocol) {
      return &candidate;
    }
  }
  return nullptr;
}

TimedCall rccl_call(std::int64_t bytes, std::int64_t ranks, std::int64_t nodes) {
  return {CommKind::all_reduce, Bytes{bytes}, DType::fp16, {ranks, nodes}};
}

// Model 5, one node of 8: ring/Simple 17 + 14 * 2.1 us, 7 * 48 GB/s * 8/14.
TEST(RcclEstimate, OfMi300xHasItsModel) {
  const RcclSetting setting{5, {{7, 48, 48}, {}}, Architecture::cdna3, CpuVendor::amd};
  const std::vector<Candidate> all = rccl_candidates(setting, rccl_call(1 << 28, 8, 1));
  ASSERT_NE(rccl_pair(all, "ring", "Simple"), nullptr);
  EXPECT_NEAR(rccl_pair(all, "ring", "Simple")->library_us, 17 + 29.4 + 268'435'456 / 192'000.0, 1e-6);
  EXPECT_NEAR(rccl_pair(all, "ring", "LL")->bandwidth, 336 * .08 * 8 / 14, 1e-9);
  EXPECT_EQ(rccl_pair(all, "ring", "LL128"), nullptr);   // this model has none
  EXPECT_EQ(rccl_pair(all, "tree", "Simple"), nullptr);  // skipped on one node of this architecture
}

// Model 0, 2 nodes of 8, 4 rings of 25 GB/s, 64 MiB: bin 20; ring/Simple corrected by 1.0 there; 2 N steps
// leave a node.
TEST(RcclEstimate, BetweenNodesIsCorrectedBySize) {
  const RcclSetting setting{0, {{4, 25, 25}, {}}, Architecture::cdna2, CpuVendor::amd};
  const std::vector<Candidate> all = rccl_candidates(setting, rccl_call(64 << 20, 16, 2));
  const Candidate* const ring = rccl_pair(all, "ring", "Simple");
  ASSERT_NE(ring, nullptr);
  EXPECT_NEAR(ring->latency_us, 17 + 26 * 6 + 4 * 15.1, 1e-9);
  EXPECT_NEAR(ring->bandwidth, 100.0 * 16 / 30, 1e-9);
  // tree/LL: ratio .04, half of it, corrected by .1 in bin 20.
  EXPECT_NEAR(rccl_pair(all, "tree", "LL")->bandwidth, 100 * .04 * .5 * .1, 1e-9);
}

TEST(RcclModels, HaveTheNumbersOfTheSource) {
  EXPECT_EQ(rccl_model(4).net_latency[1][2], 209.2);
  EXPECT_EQ(rccl_model(3).share[0][0][2], 1.75);
  EXPECT_EQ(rccl_model(5).tree_correction[2][26], .8);
  EXPECT_EQ(rccl_model(2).ring_correction[0][8], .4);
}

}  // namespace
}  // namespace commlens
