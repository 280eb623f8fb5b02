// What times of collectives must reach on measurements of others: half of the sizes of two group sizes are
// fitted, everything else is held out. The limits are those of docs/time-model.md.
#include <algorithm>
#include <map>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "commlens/base/file.hpp"
#include "tests/collectives/sweeps.hpp"

namespace commlens {
namespace {

using namespace test_support;

struct MeasuredMachine {
  const char* name;
  const char* file;
  std::vector<std::int64_t> ranks = {2, 8};
};

const std::vector<MeasuredMachine>& measured_machines() {
  static const std::vector<MeasuredMachine> machines = {
      {"dgx_a100", "nccl/a100_sxm_nccl_2.27.3_nccl_perf.csv"},
      {"dgx_h100", "nccl/h100_sxm_nccl_2.27.3_nccl_perf.csv"},
      {"hgx_b200", "nccl/b200_sxm_nccl_2.27.3_nccl_perf.csv"},
  };
  return machines;
}

constexpr const char* k_gb200 = "nccl/gb200_nccl_2.23_nccl_perf.csv";
constexpr const char* k_marenostrum = "sweeps/mn5_h100_nccl_algos_4to64n.csv";
constexpr const char* k_lumi = "sweeps/lumi_inapp_comms.csv";

class CollectiveTimes : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!fact(k_gb200)) {
      GTEST_SKIP() << "COMMLENS_TEST_DATA names no directory with facts/nccl";
    }
  }
};

/// Runs on both halves of the sizes of every machine.
void for_each_half(
    const std::function<void(const MeasuredMachine&, const std::vector<SweepPoint>&, const Split&)>& check) {
  for (const MeasuredMachine& machine : measured_machines()) {
    const std::vector<SweepPoint> points = points_of(machine.file);
    for (const bool second : {false, true}) {
      SCOPED_TRACE(std::string(machine.name) + (second ? ", second half" : ", first half"));
      check(machine, points, by_alternate_sizes(points, machine.ranks, second));
    }
  }
}

TEST_F(CollectiveTimes, OfSixCoefficientsAreWithinFivePercent) {
  for_each_half([](const MeasuredMachine& machine, const std::vector<SweepPoint>&, const Split& split) {
    const Score score = score_of(without_tables(fitted(machine.name, split.fitted)), split.held);
    EXPECT_LE(score.median, 5);
    EXPECT_LE(score.p90, 13);
  });
}

TEST_F(CollectiveTimes, WithMeasuredTimesAreCloser) {
  for_each_half([](const MeasuredMachine& machine, const std::vector<SweepPoint>&, const Split& split) {
    const Score score = score_of(fitted(machine.name, split.fitted), split.held);
    EXPECT_LE(score.median, 3.5);
    EXPECT_LE(score.p90, 11);
  });
}

TEST_F(CollectiveTimes, NextToASwitchOfProtocolAreWithinTwentyPercent) {
  for_each_half(
      [](const MeasuredMachine& machine, const std::vector<SweepPoint>& points, const Split& split) {
        const Machine fit = fitted(machine.name, split.fitted);
        const Score score = score_of(fit, at_switches(fit, points, split.held));
        EXPECT_GT(score.rows, 20U);
        EXPECT_LE(score.p90, 20);
      });
}

TEST_F(CollectiveTimes, IntervalsHoldNineOfTenRows) {
  for_each_half([](const MeasuredMachine& machine, const std::vector<SweepPoint>&, const Split& split) {
    const Score score = score_of(fitted(machine.name, split.fitted), split.held);
    EXPECT_GE(score.inside, 86);
    EXPECT_LE(score.inside, 98);
    EXPECT_LE(score.half_width, 20);
  });
}

TEST_F(CollectiveTimes, OfFourRanksFollowFromTwoByTheShapeOfTheArchitecture) {
  const std::vector<SweepPoint> points = points_of(k_gb200);
  const Machine shape = fitted("hgx_b200", points_of(measured_machines().back().file));
  const Split split = split_by(points, [](const SweepPoint& point) { return point.call.place.ranks == 2; });
  const Score score = score_of(fitted("gb200_nvl72", split.fitted, &shape), split.held);
  EXPECT_LE(score.median, 5);
  EXPECT_LE(score.p90, 12);
  EXPECT_GE(score.inside, 86);
  EXPECT_LE(score.inside, 98);
}

TEST_F(CollectiveTimes, BetweenNodesAreWithinTwelvePercentPerAlgorithm) {
  const std::vector<SweepPoint> points = points_of(k_marenostrum);
  const Split split = split_by(points, [](const SweepPoint& point) {
    const std::int64_t nodes = point.call.place.nodes;
    return nodes == 4 || nodes == 16 || nodes == 64;
  });
  const Machine machine = fitted("marenostrum5", split.fitted);
  std::map<std::string, std::vector<SweepPoint>> algorithms;
  for (const SweepPoint& point : split.held) {
    algorithms[point.library + " " + point.algorithm].push_back(point);
  }
  EXPECT_EQ(algorithms.size(), 10U);
  for (const auto& [name, held] : algorithms) {
    EXPECT_LE(score_of(machine, held).median, 12) << name;
  }
}

TEST_F(CollectiveTimes, InsideAJobAreWithinTwentyPercent) {
  std::vector<SweepPoint> points = points_of(k_lumi);
  std::erase_if(points, [](const SweepPoint& point) { return is_point_to_point(point.call.op); });
  const Split split = split_by(
      points, [](const SweepPoint& point) { return point.job_nodes == 16 || point.job_nodes == 64; });
  const Score score = score_of(fitted("lumi_g", split.fitted), split.held);
  EXPECT_GE(score.rows, 40U);
  EXPECT_LE(score.median, 20);
}

/// facts/golden_nccl.json: at which sizes NCCL changes algorithm or protocol.
TEST_F(CollectiveTimes, SwitchWhereTheLibraryDoes) {
  const Result<std::string> content = read_text_file(*fact("golden_nccl.json"), 1 << 24);
  ASSERT_TRUE(content);
  const std::map<std::string, std::pair<const char*, const char*>> machines = {
      {"ampere", {"dgx_a100", "2.27.3"}},
      {"hopper", {"dgx_h100", "2.29.2"}},
      {"blackwell", {"hgx_b200", "2.29.2"}}};
  const nlohmann::json golden = nlohmann::json::parse(*content).at("switch");
  EXPECT_EQ(golden.size(), 27U);
  for (const auto& [key, wanted] : golden.items()) {
    const std::string architecture = key.substr(0, key.find(' '));
    const std::string op = key.substr(key.find(' ') + 1, key.rfind(' ') - key.find(' ') - 1);
    const auto& [name, version] = machines.at(architecture);
    const Machine machine = built_in(name);
    Library library;
    library.version = version;
    TimedCall call{*comm_kind_from(op), {}, DType::fp16, {std::stoll(key.substr(key.rfind(' ') + 2)), 1}};
    nlohmann::json found = nlohmann::json::array();
    for (std::int64_t bytes = 512; bytes <= (1 << 29); bytes *= 2) {
      call.bytes = Bytes{bytes};
      const PairName pair = *chosen_pair(machine, library, call);
      const std::string text = pair.algorithm + "/" + pair.protocol;
      if (found.empty() || found.back()[1] != text) {
        found.push_back({bytes, text});
      }
    }
    EXPECT_EQ(found, wanted) << key;
  }
}

}  // namespace
}  // namespace commlens
