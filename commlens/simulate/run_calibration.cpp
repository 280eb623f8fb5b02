#include "commlens/simulate/run_calibration.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include <fmt/format.h>

#include "commlens/simulate/iteration_time.hpp"
#include "commlens/simulate/run_basis.hpp"
#include "commlens/simulate/run_fit.hpp"

namespace commlens {
namespace {

constexpr std::size_t k_parts = 5;
constexpr std::size_t k_least_for_spread = 10;
constexpr double k_least_spread = 0.04;
// Of fewer runs than that (docs/time-model.md#how-sure-iteration-times-are).
const double k_unknown_spread = std::log(1.3);

using Runs = std::vector<const TrainingRun*>;

/// Which part each run is in: all runs of a model in one.
std::vector<std::size_t> parts_of(const Runs& runs) {
  std::map<std::string, std::size_t> models;
  for (const TrainingRun* const run : runs) {
    models.emplace(run->model.name, 0);
  }
  std::size_t next = 0;
  for (auto& [name, part] : models) {
    part = next++ % k_parts;
  }
  std::vector<std::size_t> parts;
  for (std::size_t index = 0; index < runs.size(); ++index) {
    parts.push_back(models.size() > 1 ? models[runs[index]->model.name] : index % k_parts);
  }
  return parts;
}

double spread_of(const Runs& runs) {
  if (runs.size() < k_least_for_spread) {
    return k_unknown_spread;
  }
  const std::vector<std::size_t> parts = parts_of(runs);
  std::vector<double> errors;
  for (std::size_t part = 0; part < k_parts; ++part) {
    Runs others;
    for (std::size_t index = 0; index < runs.size(); ++index) {
      if (parts[index] != part) {
        others.push_back(runs[index]);
      }
    }
    if (others.empty() || others.size() == runs.size()) {
      continue;
    }
    const RunFit fit = fit_runs(others, start_of(*others.front()), coefficients_of(others));
    for (std::size_t index = 0; index < runs.size(); ++index) {
      if (parts[index] == part) {
        errors.push_back(std::abs(
            std::log(iteration_time(*runs[index], fit.coefficients).total() / *runs[index]->seconds)));
      }
    }
  }
  std::sort(errors.begin(), errors.end());
  return std::max(k_least_spread,
                  errors[static_cast<std::size_t>(0.9 * static_cast<double>(errors.size() - 1))]);
}

/// Where the runs were measured, each once.
std::string sources_of(const Runs& runs) {
  std::set<std::string> names;
  for (const TrainingRun* const run : runs) {
    names.insert(run->source);
  }
  std::string text;
  for (const std::string& name : names) {
    text += (text.empty() ? "" : ", ") + name;
  }
  return text;
}

FamilyFit family_fit(const std::string& name, const Runs& runs, const Coefficients& start,
                     const std::string& source) {
  const RunFit fit = fit_runs(runs, start, coefficients_of(runs));
  FamilyFit family;
  family.name = name;
  family.gpu = runs.front()->hardware.gpu;
  family.source = source.empty() ? sources_of(runs) : source;
  family.rows = static_cast<std::int64_t>(runs.size());
  family.fitted = fit.fitted;
  family.coefficients = fit.coefficients;
  for (const TrainingRun* const run : runs) {
    const bool is_small = run->behaviour.precision != MatrixPrecision::bf16;
    (is_small ? family.has_small : family.has_bf16) = true;
    (run->behaviour.has_fused_attention ? family.has_fused : family.has_unfused) = true;
    family.longest_sequence = std::max(family.longest_sequence, run->model.sequence);
  }
  const bool has_one_model = std::all_of(runs.begin(), runs.end(), [&](const TrainingRun* run) {
    return run->model.name == runs.front()->model.name;
  });
  family.only_model = has_one_model ? runs.front()->model.name : "";
  return family;
}

std::map<std::string, Runs> by_family(std::span<const TrainingRun> runs) {
  std::map<std::string, Runs> families;
  for (const TrainingRun& run : runs) {
    if (run.seconds) {
      families[run.family].push_back(&run);
    }
  }
  return families;
}

/// Where the fit of each family starts: families of one framework at what fits all of them together, so that
/// one with few runs has the others' launches and memory traffic; matrix products as the device's tables say.
std::map<std::string, Coefficients> starts_of(const std::map<std::string, Runs>& families) {
  std::map<std::string, Runs> frameworks;
  for (const auto& [name, members] : families) {
    Runs& all = frameworks[framework_of_family(name)];
    all.insert(all.end(), members.begin(), members.end());
  }
  std::map<std::string, Coefficients> starts;
  for (const auto& [name, members] : families) {
    const Runs& all = frameworks[framework_of_family(name)];
    Coefficients start = start_of(*members.front());
    if (all.size() > members.size()) {
      start = fit_runs(all, Coefficients(), coefficients_of(all)).coefficients;
      start.set(members.front()->priors);
    }
    starts.emplace(name, start);
  }
  return starts;
}

}  // namespace

RunCalibration fitted_families(std::span<const TrainingRun> runs, const std::string& source) {
  const std::map<std::string, Runs> families = by_family(runs);
  const std::map<std::string, Coefficients> starts = starts_of(families);
  RunCalibration calibration;
  for (const auto& [name, members] : families) {
    calibration.families.push_back(family_fit(name, members, starts.at(name), source));
  }
  return calibration;
}

RunCalibration calibrated_runs(std::span<const TrainingRun> runs, const std::string& source) {
  RunCalibration calibration = fitted_families(runs, source);
  const std::map<std::string, Runs> families = by_family(runs);
  for (FamilyFit& family : calibration.families) {
    family.spread = spread_of(families.at(family.name));
  }
  return calibration;
}

RunPrediction predicted_run(const TrainingRun& run, const RunCalibration& calibration) {
  const RunBasis basis = basis_of(run, calibration);
  RunPrediction prediction;
  prediction.provenance = basis.provenance;
  prediction.seconds = iteration_time(run, basis.coefficients).total();
  const double at_peak = model_flops(run) / peak_of_precision(run);
  const TimeRange range = range_of(run, basis, prediction.seconds);
  prediction.low = range.low;
  prediction.high = range.high;
  prediction.mfu = at_peak / prediction.seconds;
  prediction.mfu_low = at_peak / prediction.high;
  prediction.mfu_high = at_peak / prediction.low;
  prediction.memory_bytes = memory_bytes_of(run);
  prediction.memory_low = prediction.memory_bytes / k_memory_factor;
  prediction.memory_high = prediction.memory_bytes * k_memory_factor;
  return prediction;
}

}  // namespace commlens
