#include "commlens/compare/launch_shift.hpp"

#include <algorithm>
#include <cmath>

#include "commlens/base/check.hpp"
#include "commlens/compare/significance.hpp"

namespace commlens {
namespace {

double middle_of(std::vector<double> values) {
  COMMLENS_CHECK(!values.empty(), "nothing has no median");
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

/// How far a row of a launch is from its median over all launches, as a logarithm; [launch][row].
using Deviations = std::vector<LaunchTimes>;

Deviations deviations_of(std::span<const LaunchTimes> before, std::span<const LaunchTimes> now) {
  Deviations deviations(before.begin(), before.end());
  deviations.insert(deviations.end(), now.begin(), now.end());
  for (std::size_t row = 0; row < deviations.front().size(); ++row) {
    std::vector<double> logarithms;
    for (LaunchTimes& launch : deviations) {
      if (launch[row]) {
        launch[row] = std::log(*launch[row]);
        logarithms.push_back(*launch[row]);
      }
    }
    const double usual = logarithms.empty() ? 0 : middle_of(logarithms);
    for (LaunchTimes& launch : deviations) {
      if (launch[row]) {
        *launch[row] -= usual;
      }
    }
  }
  return deviations;
}

/// The median of some rows of a launch; std::nullopt where it has none of them.
std::optional<double> speed_of(const LaunchTimes& deviations, const std::vector<bool>& counts) {
  std::vector<double> of_rows;
  for (std::size_t row = 0; row < deviations.size(); ++row) {
    if (deviations[row] && counts[row]) {
      of_rows.push_back(*deviations[row]);
    }
  }
  return of_rows.empty() ? std::nullopt : std::optional(middle_of(of_rows));
}

/// `now` against `before`, of logarithms.
LaunchShift shift_of(const std::vector<double>& before, const std::vector<double>& now) {
  if (before.empty() || now.empty()) {
    return {};
  }
  return {.ratio = std::exp(middle_of(now) - middle_of(before)), .p = exact_p(before, now)};
}

void settle(LaunchShift& shift, double p_adjusted, double significance, double least_ratio) {
  shift.p_adjusted = p_adjusted;
  shift.is_slower = p_adjusted < significance && shift.ratio > least_ratio;
}

/// Launches of two results.
class LaunchPair {
 public:
  LaunchPair(std::span<const LaunchTimes> before, std::span<const LaunchTimes> now)
      : deviations_(deviations_of(before, now)), before_(before.size()) {}

  std::size_t rows() const { return deviations_.front().size(); }

  /// By a figure of a launch, of the launches that have it.
  template <typename Figure>
  LaunchShift compared(const Figure& figure) const {
    std::vector<double> earlier;
    std::vector<double> later;
    for (std::size_t launch = 0; launch < deviations_.size(); ++launch) {
      if (const std::optional<double> value = figure(deviations_[launch])) {
        (launch < before_ ? earlier : later).push_back(*value);
      }
    }
    return shift_of(earlier, later);
  }

  LaunchShift relative(std::size_t row) const {
    std::vector<bool> others(rows(), true);
    others[row] = false;
    return compared([&](const LaunchTimes& launch) -> std::optional<double> {
      const std::optional<double> speed = speed_of(launch, others);
      return speed && launch[row] ? std::optional(*launch[row] - *speed) : std::nullopt;
    });
  }

  /// Of the rows of a family, by those of another one.
  LaunchShift between(const RowFamily& family, const RowFamily& other) const {
    std::vector<bool> measure(rows(), false);
    for (const std::size_t row : other) {
      measure[row] = true;
    }
    return compared([&](const LaunchTimes& launch) -> std::optional<double> {
      const std::optional<double> speed = speed_of(launch, measure);
      double sum = 0;
      for (const std::size_t row : family) {
        if (!speed || !launch[row]) {
          return std::nullopt;
        }
        sum += *launch[row] - *speed;
      }
      return sum / static_cast<double>(family.size());
    });
  }

  /// … by each of the others.
  LaunchShift against_each(const RowFamily& family, const std::vector<RowFamily>& families) const {
    std::optional<LaunchShift> least;
    for (const RowFamily& other : families) {
      if (&other == &family) {
        continue;
      }
      const LaunchShift shift = between(family, other);
      least = LaunchShift{.ratio = least ? std::min(least->ratio, shift.ratio) : shift.ratio,
                          .p = least ? std::max(least->p, shift.p) : shift.p};
    }
    return least.value_or(LaunchShift());
  }

  /// Of the rows that count, all together. A row that is no slower has nothing to say for their slowness: the
  /// small p of its gain is 1 here, which is no smaller than the one-sided p.
  LaunchShift common(const std::vector<bool>& counts) const {
    LaunchShift shift = compared([&](const LaunchTimes& launch) { return speed_of(launch, counts); });
    std::vector<double> p_values;
    for (std::size_t row = 0; row < rows(); ++row) {
      if (counts[row]) {
        const LaunchShift own = compared([row](const LaunchTimes& launch) { return launch[row]; });
        p_values.push_back(own.ratio > 1 ? own.p : 1);
      }
    }
    shift.p = simes(p_values);
    return shift;
  }

 private:
  Deviations deviations_;
  std::size_t before_;
};

}  // namespace

LaunchShifts launch_shifts(std::span<const LaunchTimes> before, std::span<const LaunchTimes> now,
                           const std::vector<RowFamily>& families, const SlowerLimits& limits) {
  COMMLENS_CHECK(!before.empty() && !now.empty(), "both results have launches");
  const LaunchPair pair(before, now);
  LaunchShifts shifts;
  std::vector<double> p_values;
  const auto related = std::count_if(families.begin(), families.end(),
                                     [&](const RowFamily& family) { return is_related(family, families); });
  const auto tests = static_cast<double>(pair.rows() + static_cast<std::size_t>(related) + 1);
  const auto is_apart = [&](const LaunchShift& shift) {  // by Bonferroni
    return shift.p * tests < limits.significance &&
           (shift.ratio > limits.least_ratio || shift.ratio * limits.least_ratio < 1);
  };
  std::vector<bool> counts;  // rows that go with the others
  for (std::size_t row = 0; row < pair.rows(); ++row) {
    shifts.relative.push_back(pair.relative(row));
    p_values.push_back(shifts.relative.back().p);
    counts.push_back(!is_apart(shifts.relative.back()));
  }
  for (const RowFamily& family : families) {
    std::optional<LaunchShift>& shift = shifts.families.emplace_back();
    if (!is_related(family, families)) {
      continue;
    }
    shift = pair.against_each(family, families);
    p_values.push_back(shift->p);
    for (const std::size_t row : family) {
      counts[row] = counts[row] && !is_apart(*shift);
    }
  }
  shifts.all = pair.common(counts);
  p_values.push_back(shifts.all.p);
  const std::vector<double> adjusted = holm_adjusted(p_values);
  for (std::size_t row = 0; row < pair.rows(); ++row) {
    settle(shifts.relative[row], adjusted[row], limits.significance, limits.least_ratio);
  }
  std::size_t place = pair.rows();
  for (std::optional<LaunchShift>& shift : shifts.families) {
    if (shift) {
      settle(*shift, adjusted[place++], limits.significance, limits.least_ratio);
    }
  }
  settle(shifts.all, adjusted.back(), limits.significance, limits.least_common_ratio);
  return shifts;
}

bool is_related(const RowFamily& family, const std::vector<RowFamily>& families) {
  return family.size() > 1 && families.size() > 2;
}

}  // namespace commlens
