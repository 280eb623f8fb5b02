#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "commlens/simulate/run_calibration.hpp"
#include "commlens/simulate/training_run.hpp"

namespace commlens::test_support {

/// Measured runs of $COMMLENS_TEST_DATA/facts/throughput, and the floor's times.
struct MeasuredRuns {
  std::vector<TrainingRun> strict;             // rows whose architecture, layout and recomputation are stated
  std::map<std::string, std::string> version;  // of each id
  std::map<std::string, std::vector<std::string>> suites;  // ids
  std::map<std::string, double> floor;                     // 40 % of the peak, seconds of an id
  std::map<std::string, double> memory;                    // GiB of a device, of ids that have it
};

/// Empty where the data are not there.
const MeasuredRuns& measured_runs();

/// The strict runs of a suite, in the order of the table.
std::vector<TrainingRun> suite_runs(const std::string& suite);

/// Runs of one A100 node (facts/vtrain/single_node.csv); empty where they are not there.
std::vector<TrainingRun> single_node_runs();

/// Runs of plain PyTorch on one device of this kind (docs/results/gpu.md; pytorch/runs.csv).
std::vector<TrainingRun> pytorch_runs(const std::string& gpu);

/// What fits see, and what is predicted.
struct RunSplit {
  std::vector<TrainingRun> fitted;
  std::vector<TrainingRun> held;
};
RunSplit split_runs(const std::vector<TrainingRun>& runs,
                    const std::function<bool(const TrainingRun&)>& is_fitted);
/// `count` runs drawn at random are fitted.
RunSplit drawn_runs(const std::vector<TrainingRun>& runs, std::size_t count, std::uint32_t seed);
/// One split for each model: the others are fitted.
std::vector<RunSplit> leave_one_model_out(const std::vector<TrainingRun>& runs);

using RunTimes = std::map<std::string, double>;  // by id
/// By the coefficients that are fitted to a split's fitted runs.
RunTimes model_times(const RunSplit& split);
/// Exact operations x recomputation x bubble + logits over one efficiency a family.
RunTimes one_number_times(const RunSplit& split);
/// The rate of the nearest fitted run.
RunTimes lookup_times(const RunSplit& split);

/// Of at least one value.
double median_of(std::vector<double> values);

/// How far times are from what was measured: mean, 90th percentile (%), and Kendall's tau inside groups of
/// one model, number of devices, sequence, batch and precision, over pairs more than 3 % apart.
struct RunScore {
  std::size_t rows = 0;
  double mean = 0;
  double p90 = 0;
  double tau = 0;
  std::size_t pairs = 0;
};
RunScore score_of(const std::vector<TrainingRun>& held, const RunTimes& times);

/// A split's model beside the three baselines.
struct Comparison {
  RunScore model;
  RunScore one_number;
  RunScore lookup;
  RunScore floor;  // of the runs that the floor has
  bool beats_all() const;
};
Comparison compared(const std::vector<RunSplit>& splits);
/// Medians over drawings of `count` rows with ten seeds from `first` on.
Comparison compared_drawings(const std::vector<TrainingRun>& runs, std::size_t count,
                             std::uint32_t first = 1);

}  // namespace commlens::test_support
