// docs/results/simulate.md and data/training/families.json are what the program makes of the measured runs.
// With COMMLENS_WRITE_RESULTS=1 they are written instead of compared.
#include <cmath>
#include <cstdlib>
#include <filesystem>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "commlens/base/file.hpp"
#include "commlens/simulate/iteration_time.hpp"
#include "tests/iterations/gates.hpp"

namespace commlens {
namespace {

using namespace test_support;

/// The file holds this text, or is given it.
void expect_or_write(const std::string& file, const std::string& text) {
  const char* const directory = std::getenv("COMMLENS_SOURCE_DIR");
  const std::filesystem::path path = std::filesystem::path(directory == nullptr ? "." : directory) / file;
  if (std::getenv("COMMLENS_WRITE_RESULTS") != nullptr) {
    write_file_atomically(path, text);
    return;
  }
  const Result<std::string> now = read_text_file(path, 1 << 24);
  ASSERT_TRUE(now) << now.error().message;
  EXPECT_EQ(*now, text) << file << ": write it with COMMLENS_WRITE_RESULTS=1";
}

class IterationResults : public ::testing::Test {
 protected:
  void SetUp() override {
    if (measured_runs().strict.empty() || single_node_runs().empty()) {
      GTEST_SKIP() << "COMMLENS_TEST_DATA names no directory with facts/throughput and facts/vtrain";
    }
  }
};

/// The runs that the program's own coefficients are fitted to: not those of tiny models that launches bound.
std::vector<TrainingRun> runs_of_families() {
  std::vector<TrainingRun> runs = measured_runs().strict;
  std::erase_if(runs, [](const TrainingRun& run) { return run.source == "megatron-lm-golden"; });
  return runs;
}

/// What a baseline is off by: nothing where it has no row.
std::string mean_of(const RunScore& score) {
  return score.rows == 0 ? "-" : fmt::format("{:.1f}", score.mean);
}

std::string gate_table() {
  std::string text =
      "| suite | calibrated to predicted | rows | mean, % | P90, % | limit | met | one number | lookup | "
      "floor "
      "|\n|---|---|--:|--:|--:|--:|---|--:|--:|--:|\n";
  for (const Gate& gate : iteration_gates()) {
    const Comparison result = gate.compare();
    const bool is_met = result.model.mean <= gate.limit && result.beats_all() &&
                        (gate.p90_limit == 0 || result.model.p90 <= gate.p90_limit);
    text +=
        fmt::format("| {} | {} | {} | {:.1f} | {:.1f} | {:g} | {} | {} | {} | {} |\n", gate.suite, gate.split,
                    result.model.rows, result.model.mean, result.model.p90, gate.limit, is_met ? "yes" : "no",
                    mean_of(result.one_number), mean_of(result.lookup), mean_of(result.floor));
  }
  return text;
}

std::string order_line() {
  const Comparison result = compared(leave_one_model_out(suite_runs("A10")));
  return fmt::format(
      "Order of layouts of one model, batch and number of devices (A10, the model left out): Kendall's tau "
      "{:.2f} "
      "over {}\npairs more than 3 % apart; one number {:.2f}.\n",
      result.model.tau, result.model.pairs, result.one_number.tau);
}

std::string family_table(const RunCalibration& calibration) {
  std::string text =
      "| family | runs | 90 % of unseen ones are within, % | coefficients |\n|---|--:|--:|---|\n";
  for (const FamilyFit& family : calibration.families) {
    std::string values;
    for (const Coefficient coefficient : family.fitted) {
      values += fmt::format("{}{} {:.3g}", values.empty() ? "" : ", ", facts_of(coefficient).key,
                            family.coefficients[coefficient]);
    }
    text += fmt::format("| {} | {} | {:.0f} | {} |\n", family.name, family.rows,
                        100 * (std::exp(family.spread) - 1), values);
  }
  return text;
}

TEST_F(IterationResults, AreThoseOfThePage) {
  const RunCalibration calibration = calibrated_runs(runs_of_families(), "");
  expect_or_write("data/training/families.json", calibration_json(calibration));
  const std::string page =
      "# How close iteration times are\n\n"
      "Measured iteration times are of others: public training runs of 15 sources and one A100 node "
      "(vTrain). "
      "Part of the\nruns is fitted; the errors |predicted / measured - 1| below are of the rest, which no "
      "fit "
      "has seen. Rows drawn at\nrandom: medians over ten drawings. [The time "
      "model](../time-model.md#iterations) "
      "has the formulas. Written by\n\n"
      "```sh\nCOMMLENS_TEST_DATA=DIRECTORY COMMLENS_WRITE_RESULTS=1 build/release/tests/tests_iterations "
      "--gtest_filter='IterationResults.*'\n```\n\n"
      "Three baselines see the same rows: *one number* (exact operations, a third more where all are "
      "repeated, the "
      "pipeline's\nwaiting, the output projection, over one efficiency a family), *lookup* (the rate of the "
      "nearest "
      "fitted run) and the *floor*\n(40 % of the peak). A limit counts only where all three are beaten.\n\n" +
      gate_table() +
      "\nFormulas, priors and a few constants (what a mixture launches, bytes of a reduced gradient) were "
      "chosen with "
      "these rows in\nview: on rows of other sources expect larger errors.\n" +
      fmt::format(
          "\nA2: an optimizer group of all 1,024 ranks over one of 8, from at most 256 devices: {:+.1f} %.\n"
          "A4: time on the most devices over time on the fewest, the model left out: median error {:.1f} "
          "%.\n",
          owner_group_error(), weak_scaling_error()) +
      order_line() +
      "\n## Families\n\nFitted to all runs whose architecture, layout and recomputation are stated.\n\n" +
      family_table(calibration);
  expect_or_write("docs/results/simulate.md", page);
}

}  // namespace
}  // namespace commlens
