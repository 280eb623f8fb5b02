#include "commlens/machine/calibrate/calibrate.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include <fmt/format.h>

#include "commlens/machine/calibrate/fit.hpp"
#include "commlens/machine/calibrate/sweep_checks.hpp"
#include "commlens/machine/cost/collective.hpp"
#include "commlens/machine/cost/known_pairs.hpp"
#include "commlens/machine/cost/nccl.hpp"

namespace commlens {
namespace {

double middle_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

std::vector<SweepPoint> medians_of(const std::vector<SweepPoint>& points) {
  std::map<PointKey, std::vector<double>> times;
  std::map<PointKey, SweepPoint> first;
  for (const SweepPoint& point : points) {
    times[key_of(point)].push_back(point.us);
    first.emplace(key_of(point), point);
  }
  std::vector<SweepPoint> result;
  for (auto& [key, values] : times) {
    result.push_back(first.at(key));
    result.back().us = middle_of(values);
  }
  return result;
}

Library library_of(const Machine& machine, const SweepPoint& point, const std::string& version) {
  Library library;
  library.name = point.library.empty() ? "nccl" : point.library;
  library.version = !point.version.empty() ? point.version : version;
  // Where the row says which algorithm was taken, no release's table is needed.
  if (library.version.empty() && point.algorithm.empty()) {
    library.version = default_version(machine, library.name);
  }
  return library;
}

/// An algorithm that was asked for has its own pair, and one that cannot be for this call leaves the choice
/// to the library; else the library's table says what was taken.
Result<PairName> pair_of(const Machine& machine, const SweepPoint& point, const Library& library) {
  if (point.algorithm.empty()) {
    return chosen_pair(machine, library, point.call);
  }
  const bool exists = library.name != "nccl" || nccl_has(point.algorithm, point.call.op, point.call.place);
  return PairName{exists ? point.algorithm : "any", "any"};
}

Result<std::vector<PairPoint>> with_pairs(const Machine& machine, const std::vector<SweepPoint>& points,
                                          const std::string& version) {
  std::vector<PairPoint> result;
  std::string error;
  for (const SweepPoint& point : points) {
    const Result<PairName> pair = pair_of(machine, point, library_of(machine, point, version));
    if (!pair) {
      error = fmt::format("{}: {}", point.where, pair.error().message);
      break;
    }
    result.push_back({point, *pair});
  }
  return error.empty() ? Result<std::vector<PairPoint>>(std::move(result)) : failure(error);
}

std::vector<PairFit> shape_pairs(const Machine* machine, const std::string& library) {
  for (const Calibration& calibration :
       machine == nullptr ? std::vector<Calibration>() : machine->calibrations) {
    if (calibration.library == library) {
      return calibration.pairs;
    }
  }
  return {};
}

bool has_pair(const Calibration& calibration, const PairFit& pair, bool must_be_measured) {
  const PairFit* const found =
      find_pair(calibration.pairs, pair.op, {pair.algorithm, pair.protocol}, pair.several_nodes);
  return found != nullptr && (found->rows > 0 || !must_be_measured);
}

/// Puts a calibration before the machine's earlier ones of the library. Those of the same release keep the
/// pairs that it did not measure, with their source; pairs of another machine's shape give way to measured
/// ones.
void add_calibration(Machine& machine, Calibration fresh) {
  const auto is_alike = [&](const Calibration& earlier) {
    return earlier.library == fresh.library && is_same_release(earlier.version, fresh.version);
  };
  for (const Calibration& earlier : machine.calibrations) {
    std::erase_if(fresh.pairs, [&](const PairFit& pair) {
      return is_alike(earlier) && pair.rows == 0 && has_pair(earlier, pair, true);
    });
  }
  for (Calibration& earlier : machine.calibrations) {
    std::erase_if(earlier.pairs,
                  [&](const PairFit& pair) { return is_alike(earlier) && has_pair(fresh, pair, false); });
  }
  std::erase_if(machine.calibrations, [](const Calibration& earlier) { return earlier.pairs.empty(); });
  const auto place =
      std::find_if(machine.calibrations.begin(), machine.calibrations.end(),
                   [&](const Calibration& earlier) { return earlier.library == fresh.library; });
  machine.calibrations.insert(place, std::move(fresh));
}

/// By coefficients alone: with its own measured times every point would be exact.
Machine without_measured_times(Machine machine) {
  for (Calibration& calibration : machine.calibrations) {
    for (PairFit& pair : calibration.pairs) {
      pair.knots.clear();
    }
  }
  return machine;
}

PairError summary_of(const PairError& head, const std::vector<std::pair<double, std::string>>& errors) {
  PairError result = head;
  std::vector<double> values;
  for (const auto& [error, where] : errors) {
    values.push_back(error);
    if (error >= result.worst) {
      result.worst = error;
      result.worst_at = where;
    }
  }
  std::sort(values.begin(), values.end());
  result.rows = static_cast<std::int64_t>(values.size());
  result.median = middle_of(values);
  result.p90 = values[static_cast<std::size_t>(std::ceil(.9 * static_cast<double>(values.size()))) - 1];
  return result;
}

}  // namespace

Result<std::vector<PointTime>> times_of_points(const Machine& machine, const std::vector<SweepPoint>& points,
                                               const std::string& version) {
  std::vector<PointTime> result;
  std::string failed;
  for (const SweepPoint& point : medians_of(points)) {
    const Library library = library_of(machine, point, version);
    const Result<PairName> pair = pair_of(machine, point, library);
    const Result<CollectiveTime> time =
        pair.and_then([&](const PairName& name) { return time_of_pair(machine, library, point.call, name); });
    if (!time) {
      failed = fmt::format("{}: {}", point.where, time.error().message);
      break;
    }
    result.push_back({point, library, *pair, *time});
  }
  return failed.empty() ? Result<std::vector<PointTime>>(std::move(result)) : failure(failed);
}

Result<std::vector<PairError>> errors_of(const Machine& machine, const std::vector<SweepPoint>& points,
                                         const std::string& version) {
  return times_of_points(machine, points, version).map([](const std::vector<PointTime>& times) {
    using Key = std::tuple<std::string, CommKind, PairName, bool>;
    std::map<Key, std::vector<std::pair<double, std::string>>> errors;
    for (const PointTime& time : times) {
      errors[{time.library.name, time.point.call.op, time.pair, time.point.call.place.nodes > 1}]
          .emplace_back(std::abs(time.error()), time.point.where);
    }
    std::vector<PairError> result;
    for (const auto& [key, values] : errors) {
      const auto& [library, op, pair, several] = key;
      result.push_back(summary_of({library, op, pair.algorithm, pair.protocol, several}, values));
    }
    return result;
  });
}

Result<CalibrationOutput> calibrated(const CalibrationInput& input) {
  if (const Result<void> checked = check_points(input.machine, input.points); !checked) {
    return tl::unexpected(checked.error());
  }
  return with_pairs(input.machine, medians_of(input.points), input.version)
      .and_then([&](const std::vector<PairPoint>& points) -> Result<CalibrationOutput> {
        std::map<std::pair<std::string, std::string>, std::vector<PairPoint>> libraries;
        for (const PairPoint& point : points) {
          const Library library = library_of(input.machine, point.point, input.version);
          libraries[{library.name, library.version}].push_back(point);
        }
        CalibrationOutput output;
        output.machine = input.machine;
        output.notes = doubts_of(input.points);
        bool is_fitted = false;
        for (const auto& [name, members] : libraries) {
          const std::vector<PairFit> shape = shape_pairs(input.shape, name.first);
          Fits fits = fit_pairs(members, shape);
          output.notes.insert(output.notes.end(), fits.notes.begin(), fits.notes.end());
          if (!fits.pairs.empty()) {
            const Spread spread = cross_validated_spread(members, shape);
            is_fitted = true;
            add_calibration(output.machine, {name.first, name.second, input.source, 'M',
                                             shape.empty() ? "" : input.shape->name, std::move(fits.pairs),
                                             spread.of_sizes, spread.of_nodes});
          }
        }
        if (!is_fitted) {
          return failure(fmt::format("{}: no operation has the 3 sizes that a fit needs: {}",
                                     input.points.front().where, output.notes.back()));
        }
        return errors_of(without_measured_times(output.machine), input.points, input.version)
            .map([&](std::vector<PairError> errors) {
              output.errors = std::move(errors);
              return std::move(output);
            });
      });
}

}  // namespace commlens
