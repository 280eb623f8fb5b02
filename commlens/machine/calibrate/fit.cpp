#include "commlens/machine/calibrate/fit.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include <fmt/format.h>

#include "commlens/machine/calibrate/least_squares.hpp"
#include "commlens/machine/cost/form.hpp"

namespace commlens {
namespace {

constexpr double k_ridge = .03;        // pull towards the library's constants, on relative errors
constexpr double k_weak_ridge = 1e-6;  // between nodes, where these are far off
constexpr double k_outlier = .12;      // relative errors beyond it count linearly
constexpr int k_reweighted = 6;        // passes

using PairKey = std::tuple<CommKind, PairName, bool>;
using PointsOfPair = std::vector<PairPoint>;

std::map<PairKey, PointsOfPair> by_pair(const std::vector<PairPoint>& points) {
  std::map<PairKey, PointsOfPair> pairs;
  for (const PairPoint& point : points) {
    pairs[{point.point.call.op, point.pair, point.several_nodes()}].push_back(point);
  }
  return pairs;
}

Equation equation_of(const PairPoint& point) {
  Equation equation;
  const Features values = features(point.pair.algorithm, point.pair.protocol, point.point.call);
  for (std::size_t index = 0; index < values.size(); ++index) {
    equation.factors[index] = values[index] / point.point.us;
  }
  return equation;
}

void add_ridge(std::vector<Equation>& equations, const Prior& prior, double strength) {
  for (std::size_t index = 0; index < k_unknowns; ++index) {
    Equation equation;
    equation.factors[index] = strength / prior.scale[index];
    equation.target = strength / prior.scale[index] * prior.expected[index];
    equations.push_back(equation);
  }
}

/// In a node: least squares with a ridge towards the library's constants.
Features fitted_in_node(const PointsOfPair& points) {
  std::vector<Equation> equations;
  std::transform(points.begin(), points.end(), std::back_inserter(equations), equation_of);
  add_ridge(equations, prior_of(points.front().pair.algorithm, points.front().pair.protocol), k_ridge);
  return non_negative_least_squares(equations);
}

/// Between nodes single runs are slowed by others: errors beyond k_outlier count linearly.
/// What was measured on one number of nodes says nothing of others: then there are no such terms.
Features fitted_between_nodes(const PointsOfPair& points, bool is_one_place) {
  std::vector<Equation> equations;
  std::transform(points.begin(), points.end(), std::back_inserter(equations), equation_of);
  for (Equation& equation : equations) {
    for (const std::size_t index : {1, 3, 5}) {
      equation.factors[index] *= is_one_place ? 0 : 1;
    }
  }
  const std::size_t measured = equations.size();
  add_ridge(equations, Prior{{}, {1, 1, 1, 1, 1, 1}}, k_weak_ridge);
  Features found{};
  for (int pass = 0; pass < k_reweighted; ++pass) {
    found = non_negative_least_squares(equations);
    for (std::size_t index = 0; index < measured; ++index) {
      double value = 0;
      for (std::size_t column = 0; column < k_unknowns; ++column) {
        value += equations[index].factors[column] * found[column];
      }
      equations[index].weight = std::sqrt(std::min(1.0, k_outlier / std::max(std::abs(value - 1), 1e-9)));
    }
  }
  return found;
}

/// One number of ranks: start, a factor of the steps' time and one of everything that grows with size, of
/// `shape`.
Features fitted_by_shape(const PointsOfPair& points, const Features& shape) {
  std::vector<Equation> equations;
  for (const PairPoint& point : points) {
    const Features values = features(point.pair.algorithm, point.pair.protocol, point.point.call);
    Equation equation;
    equation.factors[0] = values[0] / point.point.us;
    equation.factors[1] = values[1] * shape[1] / point.point.us;
    for (std::size_t index = 2; index < k_unknowns; ++index) {
      equation.factors[2] += values[index] * shape[index] / point.point.us;
    }
    equations.push_back(equation);
  }
  const Prior prior = prior_of(points.front().pair.algorithm, points.front().pair.protocol);
  add_ridge(equations, Prior{{prior.expected[0], 1, 1}, {prior.scale[0], 1, 1, 1, 1, 1}}, k_ridge);
  const Features factors = non_negative_least_squares(equations);
  return {factors[0],
          factors[1] * shape[1],
          factors[2] * shape[2],
          factors[2] * shape[3],
          factors[2] * shape[4],
          factors[2] * shape[5]};
}

std::vector<Knots> knots_of(const PointsOfPair& points) {
  std::map<std::pair<std::int64_t, std::int64_t>, std::map<std::int64_t, std::vector<Weighted>>> places;
  for (const PairPoint& point : points) {
    const TimedCall& call = point.point.call;
    places[{call.place.ranks, call.place.nodes}][call.bytes.value].push_back(
        {std::log(point.point.us), point.point.weight});
  }
  std::vector<Knots> result;
  for (const auto& [place, sizes] : places) {
    Knots knots{place.first, place.second, {}, {}};
    std::vector<Weighted> logs;
    for (const auto& [bytes, values] : sizes) {
      knots.bytes.push_back(bytes);
      double weight = 0;
      for (const Weighted& value : values) {
        weight += value.weight;
      }
      logs.push_back({weighted_median(values), weight});
    }
    for (const double value : never_falling(logs)) {
      knots.us.push_back(std::exp(value));
    }
    result.push_back(std::move(knots));
  }
  return result;
}

std::size_t sizes_of(const PointsOfPair& points) {
  std::set<std::int64_t> sizes;
  for (const PairPoint& point : points) {
    sizes.insert(point.point.call.bytes.value);
  }
  return sizes.size();
}

std::size_t places_of(const PointsOfPair& points) {
  std::set<std::pair<std::int64_t, std::int64_t>> places;
  for (const PairPoint& point : points) {
    places.insert({point.point.call.place.ranks, point.point.call.place.nodes});
  }
  return places.size();
}

std::string name_of_pair(const PairKey& key) {
  const auto& [op, name, several] = key;
  return fmt::format("{} {}/{}{}", commlens::name_of(op), name.algorithm, name.protocol,
                     several ? " between nodes" : "");
}

PairFit fit_of(const PairKey& key, const PointsOfPair& points, const Features& coefficients) {
  const auto& [op, name, several] = key;
  return {op,
          name.algorithm,
          name.protocol,
          several,
          coefficients,
          static_cast<std::int64_t>(points.size()),
          knots_of(points)};
}

/// The other operation whose steps are most alike.
const PairFit* sibling_of(const std::vector<PairFit>& fitted, const PairKey& key) {
  const auto& [op, name, several] = key;
  for (const CommKind other : {CommKind::all_gather, CommKind::reduce_scatter, CommKind::all_reduce}) {
    const PairFit* const found = other == op ? nullptr : find_pair(fitted, other, name, several);
    if (found != nullptr) {
      return found;
    }
  }
  return nullptr;
}

/// How a pair measured with one number of ranks gets its dependence on it.
Features fitted_at_one_place(const PairKey& key, const PointsOfPair& points,
                             const std::vector<PairFit>& fitted) {
  if (std::get<2>(key)) {
    return fitted_between_nodes(points, true);
  }
  const PairFit* const sibling = sibling_of(fitted, key);
  return sibling != nullptr ? fitted_by_shape(points, sibling->coefficients) : fitted_in_node(points);
}

double percentile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  const double place = share * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (values[above] - values[below]) * (place - static_cast<double>(below));
}

/// Points by what is the same but the size, in order of sizes: every other one is in the second half.
std::array<std::vector<PairPoint>, 2> halves_of(const std::vector<PairPoint>& points) {
  using Series = std::tuple<CommKind, DType, std::int64_t, std::int64_t, std::string>;
  std::map<Series, PointsOfPair> series;
  for (const PairPoint& point : points) {
    const TimedCall& call = point.point.call;
    series[{call.op, call.dtype, call.place.ranks, call.place.nodes, point.point.algorithm}].push_back(point);
  }
  std::array<std::vector<PairPoint>, 2> halves;
  for (auto& [key, members] : series) {
    std::stable_sort(members.begin(), members.end(), [](const PairPoint& a, const PairPoint& b) {
      return a.point.call.bytes < b.point.call.bytes;
    });
    for (std::size_t index = 0; index < members.size(); ++index) {
      halves[index % 2].push_back(members[index]);
    }
  }
  return halves;
}

using OffByRange = std::array<std::vector<double>, 5>;

void add_errors(const std::vector<PairFit>& pairs, const std::vector<PairPoint>& held, OffByRange& off) {
  for (const PairPoint& point : held) {
    const PairFit* const pair = find_pair(pairs, point.point.call.op, point.pair, point.several_nodes());
    if (pair != nullptr) {
      off[size_range(point.point.call.bytes)].push_back(
          std::abs(std::log(point.point.us / calibrated_us(*pair, point.point.call))));
    }
  }
}

std::vector<double> all_ranges(const OffByRange& off) {
  std::vector<double> all;
  for (const std::vector<double>& values : off) {
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

constexpr double k_least_spread = .04;

/// The percentile of each range, of all where one has few.
std::array<double, 5> by_range(const OffByRange& off, double share) {
  constexpr std::size_t enough = 8;
  const std::vector<double> all = all_ranges(off);
  std::array<double, 5> spread{};
  for (std::size_t range = 0; range < off.size(); ++range) {
    const std::vector<double>& values = off[range].size() >= enough ? off[range] : all;
    // Nothing to judge by: as wide as times for other numbers of ranks.
    spread[range] = values.empty() ? std::log(1.3) : std::max(k_least_spread, percentile(values, share));
  }
  return spread;
}

/// The percentile of all sizes: what nodes change is placement and other jobs rather than the protocol of a
/// size.
std::array<double, 5> of_all(const OffByRange& off, double share) {
  const std::vector<double> all = all_ranges(off);
  std::array<double, 5> spread{};
  spread.fill(all.empty() ? std::log(1.5) : std::max(k_least_spread, percentile(all, share)));
  return spread;
}

/// Numbers of nodes between the fewest and the most.
std::vector<std::int64_t> middle_nodes(const std::vector<PairPoint>& points) {
  std::set<std::int64_t> nodes;
  for (const PairPoint& point : points) {
    if (point.several_nodes()) {
      nodes.insert(point.point.call.place.nodes);
    }
  }
  return nodes.size() < 3 ? std::vector<std::int64_t>()
                          : std::vector<std::int64_t>(std::next(nodes.begin()), std::prev(nodes.end()));
}

}  // namespace

const PairFit* find_pair(const std::vector<PairFit>& pairs, CommKind op, const PairName& name,
                         bool several_nodes) {
  const auto found = std::find_if(pairs.begin(), pairs.end(), [&](const PairFit& pair) {
    return pair.op == op && pair.algorithm == name.algorithm && pair.protocol == name.protocol &&
           pair.several_nodes == several_nodes;
  });
  return found == pairs.end() ? nullptr : &*found;
}

Fits fit_pairs(const std::vector<PairPoint>& points, const std::vector<PairFit>& shape) {
  Fits fits;
  const std::map<PairKey, PointsOfPair> pairs = by_pair(points);
  std::vector<PairKey> of_one_place;
  for (const auto& [key, members] : pairs) {
    const auto& [op, name, several] = key;
    if (const PairFit* const like = find_pair(shape, op, name, several)) {
      fits.pairs.push_back(fit_of(key, members, fitted_by_shape(members, like->coefficients)));
    } else if (sizes_of(members) >= k_enough_sizes && (places_of(members) > 1 || name.algorithm == "nvls")) {
      fits.pairs.push_back(
          fit_of(key, members, several ? fitted_between_nodes(members, false) : fitted_in_node(members)));
    } else {
      of_one_place.push_back(key);
    }
  }
  const std::vector<PairFit> fitted = fits.pairs;
  for (const PairKey& key : of_one_place) {
    const PointsOfPair& members = pairs.at(key);
    const bool has_sibling = !std::get<2>(key) && sibling_of(fitted, key) != nullptr;
    if (sizes_of(members) < k_enough_sizes && std::get<2>(key) && !has_sibling) {
      fits.notes.push_back(fmt::format("{}: {} of the {} sizes that a fit needs; not calibrated",
                                       name_of_pair(key), sizes_of(members), k_enough_sizes));
      continue;
    }
    fits.pairs.push_back(fit_of(key, members, fitted_at_one_place(key, members, fitted)));
    if (sizes_of(members) < k_enough_sizes && !has_sibling) {
      fits.notes.push_back(
          fmt::format("{}: {} of the {} sizes that a fit needs; the library's constants fill the gap",
                      name_of_pair(key), sizes_of(members), k_enough_sizes));
    } else if (places_of(members) < 2 && !has_sibling) {
      fits.notes.push_back(
          fmt::format("{}: one number of ranks, so times for others are not calibrated", name_of_pair(key)));
    }
  }
  for (const PairFit& like : shape) {
    if (find_pair(fits.pairs, like.op, {like.algorithm, like.protocol}, like.several_nodes) == nullptr) {
      fits.pairs.push_back(like);
      fits.pairs.back().rows = 0;
    }
  }
  return fits;
}

Spread cross_validated_spread(const std::vector<PairPoint>& points, const std::vector<PairFit>& shape) {
  OffByRange of_sizes;
  const std::array<std::vector<PairPoint>, 2> halves = halves_of(points);
  for (std::size_t half = 0; half < 2; ++half) {
    add_errors(fit_pairs(halves[half], shape).pairs, halves[1 - half], of_sizes);
  }
  OffByRange of_nodes;
  for (const std::int64_t nodes : middle_nodes(points)) {
    std::vector<PairPoint> kept;
    std::vector<PairPoint> held;
    for (const PairPoint& point : points) {
      (point.point.call.place.nodes == nodes ? held : kept).push_back(point);
    }
    add_errors(fit_pairs(kept, shape).pairs, held, of_nodes);
  }
  return {by_range(of_sizes, .8), of_all(of_nodes, .9)};
}

}  // namespace commlens
