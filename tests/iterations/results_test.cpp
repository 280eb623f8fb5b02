// docs/results/simulate.md and data/training/families.json are what the program makes of the measured runs.
// With COMMLENS_WRITE_RESULTS=1 they are written instead of compared.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <numeric>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "commlens/base/file.hpp"
#include "commlens/simulate/iteration_time.hpp"
#include "commlens/simulate/run_basis.hpp"
#include "tests/iterations/ablation.hpp"
#include "tests/iterations/gates.hpp"
#include "tests/iterations/layouts.hpp"

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
  for (const char* const gpu : {"H100", "H200"}) {
    const std::vector<TrainingRun> own = pytorch_runs(gpu);
    runs.insert(runs.end(), own.begin(), own.end());
  }
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

/// Predicted over measured memory, of the runs that have it.
std::string memory_lines(const RunCalibration& calibration) {
  std::map<std::string, std::vector<double>> errors;
  std::size_t inside = 0;
  std::size_t all = 0;
  for (const TrainingRun& run : measured_runs().strict) {
    const auto measured = measured_runs().memory.find(run.id);
    if (measured == measured_runs().memory.end()) {
      continue;
    }
    const double bytes = measured->second * 1024 * 1024 * 1024;
    const RunPrediction prediction = predicted_run(run, calibration);
    errors[fmt::format("{}, {}", run.source, run.model.name)].push_back(
        100 * (prediction.memory_bytes / bytes - 1));
    inside += bytes >= prediction.memory_low && bytes <= prediction.memory_high ? 1U : 0U;
    ++all;
  }
  std::string text = "| model | runs | least, % | most, % |\n|---|--:|--:|--:|\n";
  for (auto& [name, values] : errors) {
    std::sort(values.begin(), values.end());
    text +=
        fmt::format("| {} | {} | {:+.1f} | {:+.1f} |\n", name, values.size(), values.front(), values.back());
  }
  return text + fmt::format("\n{} of {} are in their interval.\n", inside, all);
}

/// What loans to a device whose runs are all left out are off by.
struct LoanScore {
  std::vector<double> errors;  // predicted / measured - 1
  std::int64_t inside = 0;
};

/// The lender alone: "borrowed from H100, fsdp".
std::string lender_in(const std::string& provenance) {
  const std::size_t end = std::min(provenance.find(", which"), provenance.find(": no"));
  return provenance.substr(0, end);
}

std::string loan_table(std::vector<TrainingRun> runs) {
  std::erase_if(runs, [](const TrainingRun& run) { return !run.seconds; });
  std::map<std::string, std::vector<TrainingRun>> devices;
  for (const TrainingRun& run : runs) {
    devices[run.hardware.gpu].push_back(run);
  }
  std::string text =
      "| device | framework | from | runs | mean, % | all, % | P90, % | in their interval |\n"
      "|---|---|---|--:|--:|--:|--:|--:|\n";
  for (const auto& [gpu, held] : devices) {
    std::vector<TrainingRun> others = runs;
    std::erase_if(others, [&gpu = gpu](const TrainingRun& run) { return run.hardware.gpu == gpu; });
    const RunCalibration calibration = calibrated_runs(others, "");
    std::map<std::pair<std::string, std::string>, LoanScore> scores;
    for (const TrainingRun& run : held) {
      const RunPrediction prediction = predicted_run(run, calibration);
      LoanScore& score = scores[{framework_of_family(run.family), lender_in(prediction.provenance)}];
      score.errors.push_back(prediction.seconds / *run.seconds - 1);
      score.inside += prediction.low <= *run.seconds && *run.seconds <= prediction.high ? 1 : 0;
    }
    for (const auto& [names, score] : scores) {
      std::vector<double> sizes;
      for (const double error : score.errors) {
        sizes.push_back(100 * std::abs(error));
      }
      std::sort(sizes.begin(), sizes.end());
      const auto count = static_cast<double>(sizes.size());
      text +=
          fmt::format("| {} | {} | {} | {} | {:.1f} | {:+.1f} | {:.0f} | {} |\n", gpu, names.first,
                      names.second, sizes.size(), std::accumulate(sizes.begin(), sizes.end(), 0.0) / count,
                      100 * std::accumulate(score.errors.begin(), score.errors.end(), 0.0) / count,
                      sizes[static_cast<std::size_t>(0.9 * (count - 1))], score.inside);
    }
  }
  return text;
}

const char* const k_introduction =
    R"(# How close iteration times are

Measured iteration times are of others (public training runs of 15 sources and one A100 node, vTrain), but for those of
[plain PyTorch](gpu.md) on an H200 and an H100. Part of the runs is fitted; the errors |predicted / measured - 1| below
are of the rest, which no fit has seen. Rows drawn at random: medians over ten drawings. [The time model](../time-model.md#iterations) has the formulas. Written by

```sh
COMMLENS_TEST_DATA=DIRECTORY COMMLENS_WRITE_RESULTS=1 build/release/tests/tests_iterations --gtest_filter='IterationResults.*'
```

Three baselines see the same rows: *one number* (exact operations, a third more where all are repeated, the pipeline's
waiting, the output projection, over one efficiency a family), *lookup* (the rate of the nearest fitted run) and the *floor*
(40 % of the peak). A limit counts only where all three are beaten.

)";

const char* const k_after_gates = R"(
Formulas, priors and a few constants (what a mixture launches, bytes of a reduced gradient) were chosen with these rows in
view: on rows of other sources expect larger errors.
)";

const char* const k_before_drawings = R"(
Other drawings of rows, mean errors in %. The limits are for the first ten:

)";

const char* const k_before_ablations = R"(
## What each term is worth

Mean errors on all runs of a suite, %, fitted to them, family by family, with one term left out and everything else
fitted again. experts: Grok on H100; A100 node: every tenth run.

)";

const char* const k_before_layouts = R"(
`half_inner` changes nothing here, since memory-bound work takes its place; it is a law of products that were measured
alone ([kernels](../time-model.md#kernels)). Adding up gradients makes A2 and the A100 node worse and five others better.
Not in the model, since no suite became worse by 0.05 without them: a busiest expert, the router, a tenth of context
messages that attention does not hide, longer attention of short heads.

## Order of layouts

Groups of at least three layouts of one model, family, number of devices, batch, sequence and precision, each predicted
by the suite's runs outside of it (A100 node: by runs of the other hidden size). tau: Kendall's, over pairs more than 3 %
apart. Regret: how much slower the layout with the shortest predicted time was than the best one. A14 is V100, whose runs
of one layout differ by up to 80 %: reported, no limit. Runs of tiny models (golden values of Megatron-LM) have no such
group.

)";

const char* const k_before_memory = R"(
## Memory

`memory_bytes` over measured memory (taken as GiB), all of one framework on one device. Nothing was fitted, but what
counts for mixtures was chosen with these runs in view. Its interval is a factor of 1.25 to both sides, since no other
framework was measured.

)";

const char* const k_before_loans = R"(
## Loans

Each device left out with all its runs: what the program would say of a device that nobody measured. From whom:
[the time model](../time-model.md#how-sure-iteration-times-are). all: mean of the errors with their sign. Factors of 1.3,
1.35 and 1.65 were chosen with this table in view, priors (uncalibrated) with runs of these devices.

)";

const char* const k_before_families = R"(
## Families

Fitted to all runs whose architecture, layout and recomputation are stated.

)";

TEST_F(IterationResults, AreThoseOfThePage) {
  const RunCalibration calibration = calibrated_runs(runs_of_families(), "");
  expect_or_write("data/training/families.json", calibration_json(calibration));
  std::string page = k_introduction + gate_table() + k_after_gates;
  page += fmt::format(
      "\nA2: an optimizer group of all 1,024 ranks over one of 8, from at most 256 devices: {:+.1f} %.\n"
      "A4: time on the most devices over time on the fewest, the model left out: median error {:.1f} %.\n",
      owner_group_error(), weak_scaling_error());
  page += order_line() + k_before_drawings + other_drawings();
  page += k_before_ablations + ablation_table();
  page += k_before_layouts + layout_table();
  page += k_before_memory + memory_lines(calibration);
  page += k_before_loans + loan_table(runs_of_families());
  page += k_before_families + family_table(calibration);
  expect_or_write("docs/results/simulate.md", page);
}

}  // namespace
}  // namespace commlens
