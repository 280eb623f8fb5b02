// Exports of recordings, run by the simulators: each call of the programs must complete.
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <tuple>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "record_job.hpp"
#include "second_count.hpp"
#include "tests/simulators/chakra_player.hpp"
#include "tests/simulators/goal_player.hpp"

namespace commlens::test {
namespace {

/// Exports the trace of the directory to both formats and plays them; with messages that end at their sender
/// by themselves, and with ones that wait for their receive.
void expect_both_complete(const JobDirectory& directory) {
  const RecordedJob job = directory.run(
      "$COMMLENS_BINARY export trace --to goal -o job.goal && $COMMLENS_BINARY export trace --to chakra -o "
      "job.et");
  ASSERT_EQ(job.exit_code, 0) << job.err;
  const std::string goal = content_of(directory.path() / "job.goal");
  for (const std::int64_t eager : {std::int64_t{1} << 40, std::int64_t{0}}) {
    const PlayedGoal played = play_goal(goal, {.eager = eager});
    EXPECT_TRUE(played.is_complete()) << "eager up to " << eager << ": " << played.text();
    EXPECT_GT(played.operations, 0);
  }
  const PlayedChakra played = play_chakra(directory.path() / "job.et");
  EXPECT_TRUE(played.is_complete()) << played.text();
  EXPECT_GT(played.nodes, 0);
  // Every wait is one of the recording: none had to be dropped for the schedule to end.
  EXPECT_EQ(goal.find("waited for later"), std::string::npos);
}

class Simulated : public testing::TestWithParam<std::tuple<std::string, std::string>> {};

// MPICH polls, so that more ranks than cores take long.
TEST_P(Simulated, ExportsOfARecordedExchangeComplete) {
  const auto& [mode, mpi] = GetParam();
  if (!has_mpi(mpi)) {
    GTEST_SKIP() << "no mpirun of " << mpi;
  }
  const JobDirectory directory;
  const RecordedJob job =
      directory.record(fmt::format("{}/exchanges_{} {}", COMMLENS_CAPTURE_PROGRAMS, mpi, mode),
                       {.mpi = mpi, .ranks = mpi == "mpich" ? 2 : 4});
  ASSERT_EQ(job.exit_code, 0) << job.err;
  expect_both_complete(directory);
}

INSTANTIATE_TEST_SUITE_P(Exchanges, Simulated,
                         testing::Combine(testing::Values("ring", "halo", "shift", "crossing", "swapped",
                                                          "pipeline", "persistent", "master", "overlap",
                                                          "two-at-a-time", "in-a-row", "grid", "threads",
                                                          "one-sided", "rooted"),
                                          testing::Values("openmpi", "mpich")),
                         [](const auto& parameters) {
                           std::string name =
                               std::get<0>(parameters.param) + "_" + std::get<1>(parameters.param);
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(Simulated, ExportsOfHpccComplete) {
  if (!has_mpi("openmpi") || !has_program("hpcc")) {
    GTEST_SKIP() << "hpcc is not installed";
  }
  const JobDirectory directory;
  std::filesystem::copy_file(std::filesystem::path(COMMLENS_CAPTURE_SOURCES) / "hpccinf.txt",
                             directory.path() / "hpccinf.txt");
  const RecordedJob job = directory.record("hpcc", {.mpi = "openmpi", .ranks = 2});
  ASSERT_EQ(job.exit_code, 0) << job.err;
  expect_both_complete(directory);
}

TEST(Simulated, ExportsOfNetpipeComplete) {
  if (!has_mpi("mpich") || !has_program("NPmpich2")) {
    GTEST_SKIP() << "netpipe-mpich2 is not installed";
  }
  const JobDirectory directory;
  const RecordedJob job = directory.record("NPmpich2 -u 256 -n 5", {.mpi = "mpich", .ranks = 2});
  ASSERT_EQ(job.exit_code, 0) << job.err;
  expect_both_complete(directory);
}

TEST(Simulated, ExportsOfTheHeatExampleComplete) {
  const std::string mpi = has_mpi("openmpi") ? "openmpi" : "mpich";
  const JobDirectory directory;
  const RecordedJob job =
      directory.record(fmt::format("{}/heat_{}", COMMLENS_CAPTURE_PROGRAMS, mpi), {.mpi = mpi, .ranks = 3});
  ASSERT_EQ(job.exit_code, 0) << job.err;
  expect_both_complete(directory);
}

}  // namespace
}  // namespace commlens::test
