#include "tests/collectives/sweeps.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <set>
#include <tuple>

#include <gtest/gtest.h>

#include "commlens/base/file.hpp"
#include "commlens/machine/machines.hpp"

namespace commlens::test_support {
namespace {

using SeriesKey = std::tuple<CommKind, DType, std::int64_t, std::int64_t>;
using PlaceKey = std::tuple<SeriesKey, std::string, std::string, std::int64_t, std::int64_t>;

SeriesKey series_of(const SweepPoint& point) {
  return {point.call.op, point.call.dtype, point.call.place.ranks, point.call.place.nodes};
}

std::vector<SweepPoint> medians(const std::vector<SweepPoint>& points) {
  std::map<PlaceKey, std::vector<double>> times;
  std::map<PlaceKey, SweepPoint> first;
  for (const SweepPoint& point : points) {
    const PlaceKey key{series_of(point), point.library, point.algorithm, point.call.bytes.value,
                       point.job_nodes};
    times[key].push_back(point.us);
    first.emplace(key, point);
  }
  std::vector<SweepPoint> result;
  for (const auto& [key, values] : times) {
    result.push_back(first.at(key));
    result.back().us = percentile_of(values, .5);
  }
  return result;
}

std::map<SeriesKey, std::vector<SweepPoint>> by_series(const std::vector<SweepPoint>& points) {
  std::map<SeriesKey, std::vector<SweepPoint>> series;
  for (const SweepPoint& point : points) {
    series[series_of(point)].push_back(point);
  }
  for (auto& [key, members] : series) {
    std::sort(members.begin(), members.end(),
              [](const SweepPoint& a, const SweepPoint& b) { return a.call.bytes < b.call.bytes; });
  }
  return series;
}

}  // namespace

double percentile_of(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  const double place = share * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (values[above] - values[below]) * (place - static_cast<double>(below));
}

std::optional<std::filesystem::path> fact(const std::string& file) {
  const char* const data = std::getenv("COMMLENS_TEST_DATA");
  const std::filesystem::path path = std::filesystem::path(data == nullptr ? "" : data) / "facts" / file;
  return data != nullptr && std::filesystem::exists(path) ? std::optional(path) : std::nullopt;
}

std::vector<SweepPoint> points_of(const std::string& file) {
  const Result<std::string> content = read_text_file(*fact(file), std::int64_t{1} << 30);
  const Result<SweepFile> sweep = content.and_then(
      [&](const std::string& text) { return parse_sweep_csv(std::filesystem::path(file).filename(), text); });
  EXPECT_TRUE(sweep) << (sweep ? "" : sweep.error().message);
  return sweep ? medians(sweep->points) : std::vector<SweepPoint>();
}

Split by_alternate_sizes(const std::vector<SweepPoint>& points, const std::vector<std::int64_t>& ranks,
                         bool second) {
  Split split;
  for (const auto& [key, members] : by_series(points)) {
    const bool is_of_ranks = std::find(ranks.begin(), ranks.end(), std::get<2>(key)) != ranks.end();
    for (std::size_t index = 0; index < members.size(); ++index) {
      (is_of_ranks && (index % 2 == 1) == second ? split.fitted : split.held).push_back(members[index]);
    }
  }
  return split;
}

Split split_by(const std::vector<SweepPoint>& points,
               const std::function<bool(const SweepPoint&)>& is_fitted) {
  Split split;
  for (const SweepPoint& point : points) {
    (is_fitted(point) ? split.fitted : split.held).push_back(point);
  }
  return split;
}

Machine built_in(const std::string& name) {
  const Result<Machine> machine = find_machine(name);
  EXPECT_TRUE(machine) << (machine ? "" : machine.error().message);
  return machine.value_or(Machine{});
}

Machine fitted(const std::string& machine, const std::vector<SweepPoint>& points, const Machine* shape) {
  Machine uncalibrated = built_in(machine);
  uncalibrated.calibrations.clear();  // which know what is held out
  const Result<CalibrationOutput> output = calibrated({uncalibrated, points, "test", "", shape});
  EXPECT_TRUE(output) << (output ? "" : output.error().message);
  return output ? output->machine : Machine{};
}

Machine without_tables(Machine machine) {
  for (Calibration& calibration : machine.calibrations) {
    for (PairFit& pair : calibration.pairs) {
      pair.knots.clear();
    }
  }
  return machine;
}

Score score_of(const Machine& machine, const std::vector<SweepPoint>& points) {
  const Result<std::vector<PointTime>> times = times_of_points(machine, points, "");
  EXPECT_TRUE(times) << (times ? "" : times.error().message);
  Score score;
  std::vector<double> errors;
  std::vector<double> widths;
  for (const PointTime& time : times ? *times : std::vector<PointTime>()) {
    errors.push_back(std::abs(time.error()) * 100);
    widths.push_back((time.time.high_us - time.time.low_us) / 2 / time.time.us * 100);
    score.inside += time.time.low_us <= time.point.us && time.point.us <= time.time.high_us ? 1 : 0;
  }
  score.rows = errors.size();
  if (!errors.empty()) {
    score.median = percentile_of(errors, .5);
    score.p90 = percentile_of(errors, .9);
    score.half_width = percentile_of(widths, .5);
    score.inside *= 100 / static_cast<double>(errors.size());
  }
  return score;
}

std::vector<SweepPoint> at_switches(const Machine& machine, const std::vector<SweepPoint>& all,
                                    const std::vector<SweepPoint>& among) {
  const auto pair_of = [&](const SweepPoint& point) {
    Library library;
    library.version = point.version;
    return *chosen_pair(machine, library, point.call);
  };
  std::set<std::pair<SeriesKey, std::int64_t>> near;
  for (const auto& [key, members] : by_series(all)) {
    for (std::size_t index = 1; index < members.size(); ++index) {
      if (pair_of(members[index - 1]) != pair_of(members[index])) {
        near.insert({key, members[index - 1].call.bytes.value});
        near.insert({key, members[index].call.bytes.value});
      }
    }
  }
  std::vector<SweepPoint> result;
  std::copy_if(among.begin(), among.end(), std::back_inserter(result), [&](const SweepPoint& point) {
    return near.contains({series_of(point), point.call.bytes.value});
  });
  return result;
}

}  // namespace commlens::test_support
