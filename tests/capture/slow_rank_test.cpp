// A job with a slow rank, recorded: it is named, and the rank that waits for it is not.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "commlens/summary/stragglers.hpp"
#include "commlens/trace/trace_file.hpp"
#include "record_job.hpp"

namespace commlens::test {
namespace {

class SlowRank : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (!has_mpi(GetParam())) {
      GTEST_SKIP() << "no mpirun of " << GetParam();
    }
  }
};

TEST_P(SlowRank, IsNamedAndNotTheOneThatWaitsForIt) {
  const JobFolder folder;
  const RecordedJob job = folder.record(fmt::format("{}/slow_{}", COMMLENS_CAPTURE_PROGRAMS, GetParam()),
                                        {.mpi = GetParam(), .ranks = 4});
  ASSERT_EQ(job.exit_code, 0) << job.err;
  const Result<Trace> trace = read_trace(folder.trace());
  ASSERT_TRUE(trace.has_value()) << trace.error().message;
  const SlowRanks slow = stragglers(*trace).slow;
  ASSERT_EQ(slow.ranks.size(), 4U);
  // 200 meetings of all: three blocks of 64 and a last one of 8, of which a busy machine may disturb one. 200
  // times 10 ms are 2 s, less the first step and what the others' sleeps take too long.
  const RankWork& culprit = slow.ranks[2];
  EXPECT_TRUE(culprit.is_slow());
  EXPECT_GE(culprit.blocks, 3);
  EXPECT_GE(culprit.slow, culprit.blocks - 1);
  EXPECT_GT(culprit.excess, std::chrono::milliseconds(1000));
  for (const std::size_t other : {0U, 1U, 3U}) {
    EXPECT_FALSE(slow.ranks[other].is_slow()) << "rank " << other;
    EXPECT_LT(slow.ranks[other].excess, culprit.excess / 4) << "rank " << other;
  }
}

INSTANTIATE_TEST_SUITE_P(Mpi, SlowRank, testing::Values("openmpi", "mpich"),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace commlens::test
