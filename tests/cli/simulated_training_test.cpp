// What `commlens train` records of a pipeline can be played by simulators.
#include <cstdint>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/cli/program.hpp"
#include "tests/simulators/chakra_player.hpp"
#include "tests/simulators/goal_player.hpp"

namespace commlens {
namespace {

class SimulatedTraining : public testing::TestWithParam<std::vector<std::string>> {};

TEST_P(SimulatedTraining, ExportsComplete) {
  if (!has_trainer()) {
    GTEST_SKIP() << "this build has no trainer";
  }
  const ScratchDirectory directory;
  std::vector<std::string> words = {"train",
                                    "19M",
                                    "--layers",
                                    "4",
                                    "--hidden",
                                    "32",
                                    "--heads",
                                    "4",
                                    "--seq",
                                    "16",
                                    "--vocab",
                                    "256",
                                    "--dtype",
                                    "fp32",
                                    "--ranks",
                                    "4",
                                    "--micro-batches",
                                    "4",
                                    "--micro-batch",
                                    "1",
                                    "--iterations",
                                    "2",
                                    "-o",
                                    directory.path("trace")};
  words.insert(words.end(), GetParam().begin(), GetParam().end());
  const Answer trained = commlens_with(words);
  ASSERT_EQ(trained.code, 0) << trained.err;
  for (const std::string format : {"goal", "chakra"}) {
    const Answer exported =
        commlens_with({"export", directory.path("trace"), "--to", format, "-o", directory.path(format)});
    ASSERT_EQ(exported.code, 0) << exported.err;
  }
  std::ifstream in(directory.path("goal"));
  const std::string goal{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  for (const std::int64_t eager : {std::int64_t{1} << 40, std::int64_t{0}}) {
    const test::PlayedGoal played = test::play_goal(goal, {.eager = eager});
    EXPECT_TRUE(played.is_complete()) << played.text();
  }
  const test::PlayedChakra played = test::play_chakra(directory.path("chakra"));
  EXPECT_TRUE(played.is_complete()) << played.text();
}

INSTANTIATE_TEST_SUITE_P(Pipelines, SimulatedTraining,
                         testing::Values(std::vector<std::string>{"--pp", "4", "--schedule", "gpipe"},
                                         std::vector<std::string>{"--pp", "2", "--dp", "2", "--schedule",
                                                                  "1f1b"},
                                         std::vector<std::string>{"--pp", "2", "--tp", "2", "--schedule",
                                                                  "interleaved", "--virtual-stages", "2"},
                                         std::vector<std::string>{"--zero", "3"}));

}  // namespace
}  // namespace commlens
