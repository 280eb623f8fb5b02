// What a prediction has to beat to be worth anything: one efficiency, and the nearest measured run.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "commlens/simulate/iteration_time.hpp"
#include "tests/iterations/runs.hpp"

namespace commlens::test_support {
namespace {

double real(std::int64_t value) { return static_cast<double>(value); }

/// Operations of one device as baselines count them: attention over all pairs of tokens, though a causal mask
/// spares half of them, and its projections as those of plain heads.
double flops_of_all_pairs(const TrainingRun& run) {
  const RunModel& model = run.model;
  const double width = real(model.heads * model.head_dim);
  const double attention = 2 * real(model.hidden) * (2 * width + 2 * real(model.kv_heads * model.head_dim)) +
                           4 * real(model.sequence) * width;
  const double matrices = model.is_gated ? 3 : 2;
  const double expert_width = real(model.expert_ffn) * real(model.top_k + model.shared_experts);
  const double dense = real(model.experts > 1 ? model.dense_layers : model.layers);
  const double feed = 2 * real(model.hidden) * matrices *
                      (dense * real(model.ffn) + (real(model.layers) - dense) * expert_width);
  const double head = 2 * real(model.hidden) * real(model.vocab);
  const double tokens = real(run.layout.global_batch) * real(model.sequence);
  return 3 * (real(model.layers) * attention + feed + head) * tokens / real(run.layout.ranks);
}

/// Seconds at the peak: operations of the layers, a third more where all are repeated, waiting of the
/// pipeline, and the output projection. fp8 counts 1.4 times the peak, as the floor has it.
double seconds_at_peak(const TrainingRun& run) {
  const RunLayout& layout = run.layout;
  const double head = 6 * real(run.model.hidden) * real(run.model.vocab) * real(layout.global_batch) *
                      real(run.model.sequence) / real(layout.ranks);
  const double repeated = run.behaviour.recompute == Recompute::full ? 4.0 / 3 : 1;
  const double bubble =
      real(layout.pipeline - 1) / (real(layout.virtual_stages) * real(layout.micro_batches()));
  const double peak = run.hardware.peak * (run.behaviour.precision == MatrixPrecision::bf16 ? 1 : 1.4);
  return ((flops_of_all_pairs(run) - head) * repeated * (1 + bubble) + head * real(layout.pipeline)) / peak;
}

std::array<double, 9> place_of(const TrainingRun& run) {
  const RunLayout& layout = run.layout;
  return {real(run.model.layers) * real(run.model.hidden) * real(run.model.hidden),
          real(layout.ranks),
          real(run.model.sequence),
          real(layout.micro_batch),
          real(layout.tensor),
          real(layout.pipeline),
          real(layout.context),
          real(layout.expert),
          real(layout.micro_batches())};
}

double distance(const TrainingRun& run, const TrainingRun& other) {
  const auto here = place_of(run);
  const auto there = place_of(other);
  double sum = run.behaviour.precision == other.behaviour.precision ? 0 : 1;
  sum += run.behaviour.recompute == other.behaviour.recompute ? 0 : 1;
  sum += run.family == other.family ? 0 : 5;
  sum += is_sharded(run.layout.data_kind) == is_sharded(other.layout.data_kind) ? 0 : 2;
  for (std::size_t index = 0; index < here.size(); ++index) {
    sum += std::abs(std::log(here[index] / there[index]));
  }
  return sum;
}

}  // namespace

RunTimes one_number_times(const RunSplit& split) {
  std::map<std::string, std::vector<double>> efficiencies;
  for (const TrainingRun& run : split.fitted) {
    efficiencies[run.family].push_back(*run.seconds / seconds_at_peak(run));
    efficiencies[""].push_back(*run.seconds / seconds_at_peak(run));
  }
  for (auto& [family, values] : efficiencies) {
    std::sort(values.begin(), values.end());
  }
  RunTimes times;
  for (const TrainingRun& run : split.held) {
    const auto found = efficiencies.find(run.family);
    const std::vector<double>& values = found == efficiencies.end() ? efficiencies[""] : found->second;
    times[run.id] = seconds_at_peak(run) * values[values.size() / 2];
  }
  return times;
}

RunTimes lookup_times(const RunSplit& split) {
  RunTimes times;
  for (const TrainingRun& run : split.held) {
    double nearest = std::numeric_limits<double>::infinity();
    for (const TrainingRun& other : split.fitted) {
      if (const double far = distance(run, other); far < nearest) {
        nearest = far;
        const double rate = *other.seconds / (flops_of_all_pairs(other) / other.hardware.peak);
        times[run.id] = rate * flops_of_all_pairs(run) / run.hardware.peak;
      }
    }
  }
  return times;
}

}  // namespace commlens::test_support
