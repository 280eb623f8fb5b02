#include "commlens/machine/cost/tuning_log.hpp"

#include <gtest/gtest.h>

namespace commlens {
namespace {

constexpr const char* k_tuning_log =
    R"(node1:42:42 [0] NCCL INFO    Algorithm   |          Tree  |          Ring  |
node1:42:42 [0] NCCL INFO    Protocol    |  LL |  LL128 |  Simple |  LL |  LL128 |  Simple |
node1:42:42 [0] NCCL INFO  Max NThreads  |  512 |  640 |  512 |  512 |  640 |  512 |
node1:42:42 [0] NCCL INFO     AllGather  |  0.0/   0.0 |  0.0/   0.0 |  0.0/   0.0 |  10.8/  87.7 |  27.3/ 220.8 |  32.2/ 240.0 |
node1:42:42 [0] NCCL INFO     AllReduce  |  15.2/   4.1 |  31.5/  51.5 |  64.4/  55.2 |  15.0/  50.1 |  40.6/ 126.2 |  56.0/ 137.1 |
)";

TEST(TuningLog, HasLatencyAndBandwidthOfEachPair) {
  const Result<std::vector<TunedPair>> pairs = parse_tuning_log("job.log", k_tuning_log);
  ASSERT_TRUE(pairs);
  ASSERT_EQ(pairs->size(), 12U);
  EXPECT_EQ(pairs->at(9).op, CommKind::all_reduce);
  EXPECT_EQ(pairs->at(9).algorithm, "ring");
  EXPECT_EQ(pairs->at(9).protocol, "LL");
  EXPECT_EQ(pairs->at(9).latency_us, 15);
  EXPECT_EQ(pairs->at(9).bandwidth, 50.1);
  EXPECT_EQ(pairs->at(6).algorithm, "tree");
}

TEST(TuningLog, WithoutATableIsRefused) {
  EXPECT_EQ(parse_tuning_log("job.log", "NCCL INFO Bootstrap\n").error().message,
            "job.log: no table of NCCL_DEBUG_SUBSYS=TUNING (rows like \"AllReduce | 15.2/ 4.1 |\")");
}

}  // namespace
}  // namespace commlens
