// docs/results/calibrate.md and the calibrations of data/machines are what the program makes of the sweeps.
// With COMMLENS_WRITE_RESULTS=1 they are written instead of compared.
#include <cstdlib>
#include <map>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "commlens/base/file.hpp"
#include "commlens/machine/machine_reader.hpp"
#include "commlens/machine/machines.hpp"
#include "tests/collectives/sweeps.hpp"

namespace commlens {
namespace {

using namespace test_support;

struct Calibrated {
  const char* name;
  const char* title;
  const char* file;
  const char* source;
  const char* shape = "";  // an earlier one of the list
};

constexpr const char* k_nccl_sweeps = "ai-dynamo/aiconfigurator@095f58a5 (Apache-2.0), nccl-tests on ";
constexpr Calibrated k_calibrated[] = {
    {"dgx_a100", "A100", "nccl/a100_sxm_nccl_2.27.3_nccl_perf.csv", "A100-SXM4-80GB, one run a point"},
    {"dgx_h100", "H100", "nccl/h100_sxm_nccl_2.27.3_nccl_perf.csv", "H100 80GB HBM3, medians of two runs"},
    {"hgx_b200", "B200", "nccl/b200_sxm_nccl_2.27.3_nccl_perf.csv", "B200, medians of three runs"},
    {"gb200_nvl72", "GB200", "nccl/gb200_nccl_2.23_nccl_perf.csv", "GB200, medians of four or five runs",
     "hgx_b200"},
};
constexpr const char* k_multi_node = "sweeps/mn5_h100_nccl_algos_4to64n.csv";
constexpr const char* k_in_job = "sweeps/lumi_inapp_comms.csv";

std::filesystem::path repository_file(const std::string& file) {
  const char* const directory = std::getenv("COMMLENS_SOURCE_DIR");
  return std::filesystem::path(directory == nullptr ? "." : directory) / file;
}

bool writes() { return std::getenv("COMMLENS_WRITE_RESULTS") != nullptr; }

/// The file holds this text, or is given it.
void expect_or_write(const std::string& file, const std::string& text) {
  if (writes()) {
    write_file_atomically(repository_file(file), text);
    return;
  }
  const Result<std::string> now = read_text_file(repository_file(file), 1 << 24);
  ASSERT_TRUE(now) << now.error().message;
  EXPECT_EQ(*now, text) << file << ": write it with COMMLENS_WRITE_RESULTS=1";
}

class CalibrationResults : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!fact(k_in_job) || !fact(k_calibrated[0].file)) {
      GTEST_SKIP() << "COMMLENS_TEST_DATA names no directory with facts/nccl and facts/sweeps";
    }
  }
};

std::string line_of(const std::string& what, const Score& score) {
  return fmt::format("| {} | {} | {:.1f} | {:.1f} | {:.0f} | {:.0f} |\n", what, score.rows, score.median,
                     score.p90, score.inside, score.half_width);
}

constexpr const char* k_columns =
    "points | median, % | P90, % | in their interval, % | half width, % |\n|---|--:|--:|--:|--:|--:|\n";

std::string single_node_table() {
  std::string text = std::string("| held out: every other size of 2 and 8 ranks, all of 4 | ") + k_columns;
  for (const Calibrated& machine : k_calibrated) {
    if (std::string(machine.shape).empty()) {
      const std::vector<SweepPoint> points = points_of(machine.file);
      for (const bool second : {false, true}) {
        const Split split = by_alternate_sizes(points, {2, 8}, second);
        const Machine fit = fitted(machine.name, split.fitted);
        const std::string name =
            fmt::format("{}, {} half fitted", machine.title, second ? "second" : "first");
        text += line_of(name + ": six coefficients", score_of(without_tables(fit), split.held));
        text += line_of(name + ": with measured times", score_of(fit, split.held));
        text += line_of(name + ": next to a switch", score_of(fit, at_switches(fit, points, split.held)));
      }
    }
  }
  return text;
}

std::string gb200_table() {
  const std::vector<SweepPoint> points = points_of(k_calibrated[3].file);
  const Machine shape = fitted(k_calibrated[2].name, points_of(k_calibrated[2].file));
  const Split split = split_by(points, [](const SweepPoint& point) { return point.call.place.ranks == 2; });
  return std::string("| held out: 4 ranks, 2 are fitted | ") + k_columns +
         line_of("GB200 by itself", score_of(fitted("gb200_nvl72", split.fitted), split.held)) +
         line_of("GB200 with the shape of B200",
                 score_of(fitted("gb200_nvl72", split.fitted, &shape), split.held));
}

std::string multi_node_table() {
  const Split split = split_by(points_of(k_multi_node), [](const SweepPoint& point) {
    const std::int64_t nodes = point.call.place.nodes;
    return nodes == 4 || nodes == 16 || nodes == 64;
  });
  const Machine machine = fitted("marenostrum5", split.fitted);
  std::map<std::string, std::vector<SweepPoint>> algorithms;
  for (const SweepPoint& point : split.held) {
    algorithms[point.library + " " + point.algorithm].push_back(point);
  }
  std::string text = std::string("| held out: 8 and 32 nodes; 4, 16 and 64 are fitted | ") + k_columns;
  for (const auto& [name, held] : algorithms) {
    text += line_of(name, score_of(machine, held));
  }
  return text;
}

std::string in_job_table() {
  std::vector<SweepPoint> points = points_of(k_in_job);
  std::erase_if(points, [](const SweepPoint& point) { return is_point_to_point(point.call.op); });
  const Split split = split_by(
      points, [](const SweepPoint& point) { return point.job_nodes == 16 || point.job_nodes == 64; });
  const Machine machine = fitted("lumi_g", split.fitted);
  std::map<std::string, std::vector<SweepPoint>> operations;
  for (const SweepPoint& point : split.held) {
    operations[std::string(name_of(point.call.op))].push_back(point);
  }
  std::string text = std::string("| held out: 32, 128 and 256 nodes; 16 and 64 are fitted | ") + k_columns +
                     line_of("all collectives", score_of(machine, split.held));
  for (const auto& [name, held] : operations) {
    text += line_of(name, score_of(machine, held));
  }
  return text;
}

/// The library's constants alone, on every point.
std::string constants_table() {
  std::string text = std::string("| no measured time used | ") + k_columns;
  for (const Calibrated& entry : k_calibrated) {
    Machine machine = built_in(entry.name);
    machine.calibrations.clear();
    text +=
        line_of(fmt::format("{}: NCCL's constants", entry.title), score_of(machine, points_of(entry.file)));
  }
  return text;
}

TEST_F(CalibrationResults, AreThoseOfThePage) {
  const std::string page =
      "# How close times of collectives are\n\n"
      "Measured times are of others: nccl-tests on one node of A100, H100, B200 and GB200 (aiconfigurator), "
      "all_reduce by\n"
      "algorithm on MareNostrum 5 (pico), collectives inside a training job on LUMI. Replicates of a point "
      "count as their\n"
      "median. Part of the points is fitted; the errors |predicted / measured - 1| below are of the rest, "
      "which no fit has\n"
      "seen. [The time model](../time-model.md) has the formulas. Written by\n\n"
      "```sh\nCOMMLENS_TEST_DATA=DIRECTORY COMMLENS_WRITE_RESULTS=1 build/release/tests/tests_collectives "
      "--gtest_filter='CalibrationResults.*'\n```\n\n"
      "## One node\n\n" +
      single_node_table() + "\n" + gb200_table() + "\n## Several nodes\n\n" + multi_node_table() +
      "\nAlgorithms that all_reduce does not have (`pat`), or not without a switch that reduces (`collnet`, "
      "`nvls`), are "
      "runs in\nwhich NCCL chose by itself: they are fitted together. The number of nodes moves times by "
      "steps that no "
      "formula of sizes\nand nodes knows (placement in the network, other jobs).\n\n## Inside a training "
      "job\n\n" +
      in_job_table() +
      "\nThese times contain waiting for other ranks. Gathers whose bytes shrink as the job grows are taken "
      "as gathers of "
      "shards\nover the nodes; all_reduce was logged on 64 of the fitted nodes only.\n\n## Without "
      "measurements\n\n" +
      constants_table();
  expect_or_write("docs/results/calibrate.md", page);
}

/// Calibrates as `commlens calibrate` does, from the machine's own facts.
Machine recalibrated(const Calibrated& entry, const std::map<std::string, Machine>& earlier) {
  const Result<std::string> content = read_text_file(*fact(entry.file), std::int64_t{1} << 30);
  const Result<SweepFile> sweep =
      content.and_then([&](const std::string& text) { return parse_sweep_csv(entry.file, text); });
  EXPECT_TRUE(sweep);
  Machine machine = built_in(entry.name);
  machine.calibrations.clear();
  const auto shape = earlier.find(entry.shape);
  const Result<CalibrationOutput> output = calibrated(
      {machine, sweep->points, entry.source, "", shape == earlier.end() ? nullptr : &shape->second});
  EXPECT_TRUE(output) << (output ? "" : output.error().message);
  return output ? output->machine : machine;
}

TEST_F(CalibrationResults, AreThoseOfTheMachineFiles) {
  std::map<std::string, Machine> machines;
  for (const Calibrated& entry : k_calibrated) {
    const std::string source = std::string(k_nccl_sweeps) + entry.source;
    Calibrated sourced = entry;
    sourced.source = source.c_str();
    machines[entry.name] = recalibrated(sourced, machines);
    expect_or_write(fmt::format("data/machines/{}.json", entry.name), machine_json(machines[entry.name]));
  }
  const Calibrated multi_node = {"marenostrum5", "", k_multi_node,
                                 "HLC-Lab/pico@413bc5d0f98f (MIT), medians"};
  expect_or_write("data/machines/marenostrum5.json", machine_json(recalibrated(multi_node, machines)));
}

}  // namespace
}  // namespace commlens
