#pragma once
#include <functional>
#include <span>
#include <vector>

#include "commlens/simulate/coefficients.hpp"
#include "commlens/simulate/training_run.hpp"

namespace commlens {

/// What these runs can say something about, at most nine: by how they share parameters, what they overlap,
/// their precisions, and whether they have experts.
std::vector<Coefficient> coefficients_of(std::span<const TrainingRun* const> runs);
constexpr std::size_t k_most_fitted = 9;

/// The priors, with what is known of the run's device and framework.
Coefficients start_of(const TrainingRun& run);

/// Coefficients that were fitted to measured iteration times.
struct RunFit {
  Coefficients coefficients;
  std::vector<Coefficient> fitted;
};

/// Seconds of an iteration of a run.
using RunSeconds = std::function<double(const TrainingRun&, const Coefficients&)>;
double closed_form_seconds(const TrainingRun& run, const Coefficients& with);

/// The coefficients in `fitted` that make the smallest sum of errors: of the logarithm of predicted over
/// measured, squared below 10 %, counted linearly beyond, and of the distance to `start`, in which a width
/// counts as much as an error of 4 %. Inside their limits. Every run has a time. The same runs in whatever
/// order and threads give the same numbers. `seconds`: the closed form, or one that lacks something.
RunFit fit_runs(std::span<const TrainingRun* const> runs, const Coefficients& start,
                const std::vector<Coefficient>& fitted, const RunSeconds& seconds = closed_form_seconds);

}  // namespace commlens
