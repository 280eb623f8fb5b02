// What times of iterations must reach on measured runs of others that no fit has seen, beside what has to be
// beaten to be worth anything. The limits are those of docs/time-model.md.
#include "tests/iterations/gates.hpp"

#include <cmath>

#include <gtest/gtest.h>

#include "commlens/simulate/run_calibration.hpp"
#include "tests/iterations/layouts.hpp"

namespace commlens {
namespace {

using namespace test_support;

class IterationTimes : public ::testing::Test {
 protected:
  void SetUp() override {
    if (measured_runs().strict.empty() || single_node_runs().empty()) {
      GTEST_SKIP() << "COMMLENS_TEST_DATA names no directory with facts/throughput and facts/vtrain";
    }
  }
};

TEST_F(IterationTimes, AreWithinTheirLimitsOnRunsThatNoFitHasSeen) {
  for (const Gate& gate : iteration_gates()) {
    SCOPED_TRACE(gate.suite + ": " + gate.split);
    const Comparison result = gate.compare();
    EXPECT_GT(result.model.rows, 0U);
    EXPECT_LE(result.model.mean, gate.is_met ? gate.limit : gate.limit * 1.4);
    EXPECT_EQ(result.model.mean <= gate.limit && result.beats_all(), gate.is_met)
        << "the gate is not as the table says: " << result.model.mean << ", one number "
        << result.one_number.mean << ", lookup " << result.lookup.mean << ", floor " << result.floor.mean;
    if (gate.p90_limit > 0) {
      EXPECT_LE(result.model.p90, gate.p90_limit);
    }
  }
}

TEST_F(IterationTimes, KnowWhatAWideGroupOfOwnersCosts) { EXPECT_LE(std::abs(owner_group_error()), 5); }

TEST_F(IterationTimes, AreAsFlatAsMeasuredWhenJobsGrow) { EXPECT_LE(weak_scaling_error(), 2); }

TEST_F(IterationTimes, OrderLayoutsAsMeasured) {
  const Comparison result = compared(leave_one_model_out(suite_runs("A10")));
  EXPECT_GT(result.model.pairs, 10U);
  EXPECT_GE(result.model.tau, 0.95);
}

TEST_F(IterationTimes, ChooseLayoutsNearTheBest) {
  std::size_t groups = 0;
  for (const LayoutGroup& group : layout_groups()) {
    // Runs of A14 differ by up to 80 % on one layout.
    if (group.suite.starts_with("A") && group.suite != "A14" && group.suite != "A100 node") {
      EXPECT_LE(group.regret, 2) << group.suite << ": " << group.name;
      ++groups;
    }
  }
  EXPECT_GE(groups, 10U);
}

TEST_F(IterationTimes, HaveTheMemoryThatWasMeasured) {
  std::size_t seen = 0;
  for (const TrainingRun& run : measured_runs().strict) {
    if (const auto found = measured_runs().memory.find(run.id); found != measured_runs().memory.end()) {
      const double bytes = found->second * 1024 * 1024 * 1024;
      const RunPrediction prediction = predicted_run(run, built_in_calibration());
      EXPECT_NEAR(prediction.memory_bytes / bytes, 1.05, 0.11) << run.id;
      EXPECT_LT(prediction.memory_low, bytes) << run.id;
      EXPECT_GT(prediction.memory_high, bytes) << run.id;
      ++seen;
    }
  }
  EXPECT_EQ(seen, 43U);
}

struct KnownTime {
  const char* id;
  double prototype;  // seconds, of another program with nearly the same formulas
};

/// The other program's coefficients are its own, and it has no divided products, no repeated pass without its
/// last product and another time of an iteration beside everything else.
constexpr KnownTime k_known[] = {{"internevo-0008", 7.1960},          {"internevo-0016", 4.4624},
                                 {"internevo-0042", 1.8192},          {"llm-foundry-0001", 16.0111},
                                 {"llm-foundry-0077", 1.7083},        {"llm-foundry-0091", 124.4131},
                                 {"llm-foundry-0149", 71.7486},       {"dgxc-benchmarking-0024", 17.4806},
                                 {"dgxc-benchmarking-0041", 10.7803}, {"dgxc-benchmarking-0009", 22.2115},
                                 {"mlperf-v3.1-0001", 0.9081},        {"argonne-aurora-0008", 53.4411},
                                 {"argonne-aurora-0018", 33.5796},    {"simumax-b200-0004", 0.2739},
                                 {"simumax-b200-0023", 4.3650}};

TEST_F(IterationTimes, AreNearThoseOfAnotherProgram) {
  for (const KnownTime& known : k_known) {
    for (const TrainingRun& run : measured_runs().strict) {
      if (run.id == known.id) {
        const double seconds = predicted_run(run, built_in_calibration()).seconds;
        EXPECT_NEAR(seconds / known.prototype, 1, 0.065) << known.id << ": " << seconds;
      }
    }
  }
}

TEST_F(IterationTimes, AreInTheirIntervals) {
  std::size_t inside = 0;
  std::size_t all = 0;
  for (const std::string suite : {"A2", "A3", "A4", "A7", "A8", "A9", "A10"}) {
    for (const TrainingRun& run : suite_runs(suite)) {
      const RunPrediction prediction = predicted_run(run, built_in_calibration());
      EXPECT_LT(prediction.low, prediction.seconds) << run.id;
      EXPECT_LT(prediction.seconds, prediction.high) << run.id;
      inside += *run.seconds >= prediction.low && *run.seconds <= prediction.high ? 1U : 0U;
      ++all;
    }
  }
  EXPECT_GE(static_cast<double>(inside), 0.86 * static_cast<double>(all));
}

}  // namespace
}  // namespace commlens
