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
  const JobDirectory directory;
  const RecordedJob job = directory.record(fmt::format("{}/slow_{}", COMMLENS_CAPTURE_PROGRAMS, GetParam()),
                                           {.mpi = GetParam(), .ranks = 4});
  ASSERT_EQ(job.exit_code, 0) << job.err;
  const Result<Trace> trace = read_trace(directory.trace());
  ASSERT_TRUE(trace.has_value()) << trace.error().message;
  const SlowRanks slow = stragglers(*trace).slow;
  ASSERT_EQ(slow.ranks.size(), 4U);
  // 192 meetings of all are three blocks; a busy machine would have to delay another rank by half of the 800
  // ms that rank 2 sleeps in each.
  for (const RankWork& rank : slow.ranks) {
    EXPECT_EQ(rank.is_slow(), rank.rank == Rank{2})
        << "rank " << rank.rank.value << ": slow in " << rank.slow << " of " << rank.blocks << " blocks";
    EXPECT_EQ(slow.groups[rank.group].members.size(), 4U);
  }
}

INSTANTIATE_TEST_SUITE_P(Mpi, SlowRank, testing::Values("openmpi", "mpich"),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace commlens::test
