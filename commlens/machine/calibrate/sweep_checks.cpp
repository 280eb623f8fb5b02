#include "commlens/machine/calibrate/sweep_checks.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include <fmt/format.h>

#include "commlens/base/units.hpp"
#include "commlens/comm/volume.hpp"
#include "commlens/machine/cost/collective.hpp"

namespace commlens {
namespace {

/// A time beyond the links by more than this is a unit error rather than a fast machine: switches that reduce
/// reach 1.07 of a link's rate.
constexpr double k_most_of_link = 1.25;

constexpr std::size_t k_fewest_sizes = 3;
// Of benchmarks that were published (docs/results/calibrate.md), replicates are up to 3.9 times apart, times
// fall by up to 1.9 times on the way, and those of the largest size are at least 4 times those of the
// smallest.
constexpr double k_replicates_apart = 5;
constexpr double k_falls_on_the_way = 4;
constexpr double k_falls_in_all = 2;

/// GB/s that the ranks of a placement can send at most, each.
double link_rate(const Machine& machine, const Placement& place) {
  const double inside = machine.up.bandwidth ? machine.up.bandwidth->value : 0;
  const double between =
      machine.out.nics && machine.out.bandwidth ? machine.out.nics->value * machine.out.bandwidth->value : 0;
  return place.nodes > 1
             ? std::max(between,
                        static_cast<double>(place.ranks) <= machine.ranks_per_node.value ? inside : 0)
             : inside;
}

Result<void> check_rate(const Machine& machine, const SweepPoint& point) {
  const double link = link_rate(machine, point.call.place);
  const double bus = static_cast<double>(point.call.bytes.value) / point.us / 1e3 *
                     bus_factor(point.call.op, point.call.place.ranks);
  if (link > 0 && bus > k_most_of_link * link) {
    return failure(fmt::format(
        "{}: {:.0f} GB/s of bus bandwidth, {:.1f} times what the links of {} carry ({:.0f} GB/s): "
        "times or sizes are in another unit",
        point.where, bus, bus / link, machine.name, link));
  }
  return {};
}

/// Whether every row is there an even number of times with the same time: the sweep was given twice.
bool is_doubled(const std::vector<SweepPoint>& points) {
  std::map<std::pair<PointKey, double>, std::size_t> times;
  for (const SweepPoint& point : points) {
    ++times[{key_of(point), point.us}];
  }
  return std::all_of(times.begin(), times.end(), [](const auto& entry) { return entry.second % 2 == 0; });
}

/// Nodes and ranks that NCCL and RCCL can be on; of MPI, ranks may be cores.
Result<void> check_place(const Machine& machine, const SweepPoint& point) {
  const Placement& place = point.call.place;
  if (point.library != "mpi" && static_cast<double>(place.per_node()) > machine.ranks_per_node.value) {
    return failure(fmt::format("{}: {} ranks on a node: {} has {}", point.where, place.per_node(),
                               machine.name, machine.ranks_per_node.value));
  }
  if (machine.nodes && static_cast<double>(place.nodes) > machine.nodes->value) {
    return failure(
        fmt::format("{}: {} nodes: {} has {}", point.where, place.nodes, machine.name, machine.nodes->value));
  }
  return {};
}

Result<void> check_point(const Machine& machine, const SweepPoint& point) {
  if (!std::isfinite(point.us) || point.us <= 0) {
    return failure(fmt::format("{}: the time is {}; it must be above 0", point.where, point.us));
  }
  if (!point.library.empty() && !runs_on(point.library, machine.processor.architecture)) {
    return failure(fmt::format("{}: {} does not run on {} ({})", point.where, point.library, machine.name,
                               machine.processor.name));
  }
  return check_place(machine, point).and_then([&] { return check_rate(machine, point); });
}

/// Points of benchmarks by what is the same but the size, in order of sizes. (In a job, times contain waiting
/// for others.)
std::vector<std::vector<SweepPoint>> series_of(const std::vector<SweepPoint>& points) {
  std::map<PointKey, std::vector<SweepPoint>> series;
  for (const SweepPoint& point : points) {
    if (!point.is_in_job) {
      PointKey key = key_of(point);
      std::get<7>(key) = 0;
      series[key].push_back(point);
    }
  }
  std::vector<std::vector<SweepPoint>> result;
  for (auto& [key, members] : series) {
    std::stable_sort(members.begin(), members.end(),
                     [](const SweepPoint& a, const SweepPoint& b) { return a.call.bytes < b.call.bytes; });
    result.push_back(std::move(members));
  }
  return result;
}

std::set<std::int64_t> sizes_in(const std::vector<SweepPoint>& points) {
  std::set<std::int64_t> sizes;
  for (const SweepPoint& point : points) {
    sizes.insert(point.call.bytes.value);
  }
  return sizes;
}

Result<void> check_rising(const std::vector<SweepPoint>& series) {
  const SweepPoint& smallest = series.front();
  const SweepPoint& largest = series.back();
  if (sizes_in(series).size() >= k_fewest_sizes && smallest.us > k_falls_in_all * largest.us) {
    return failure(
        fmt::format("{}: {} us of {} bytes, and {:g} us of {} bytes at {}: times fall with size; "
                    "are the columns swapped?",
                    smallest.where, smallest.us, smallest.call.bytes.value, largest.us,
                    largest.call.bytes.value, largest.where));
  }
  return {};
}

/// The first time of a series that a larger size undercuts by far.
void add_doubts(const std::vector<SweepPoint>& series, std::vector<std::string>& doubts) {
  const SweepPoint* slowest = &series.front();
  for (const SweepPoint& point : series) {
    if (point.call.bytes > slowest->call.bytes && slowest->us > k_falls_on_the_way * point.us) {
      doubts.push_back(fmt::format("{}: {:g} us of {} bytes, {:.1f} times as long as {} bytes at {}",
                                   slowest->where, slowest->us, slowest->call.bytes.value,
                                   slowest->us / point.us, point.call.bytes.value, point.where));
      return;
    }
    slowest = point.us > slowest->us ? &point : slowest;
  }
}

}  // namespace

PointKey key_of(const SweepPoint& point) {
  const TimedCall& call = point.call;
  return {point.library, point.version,    call.op,          point.algorithm,
          call.dtype,    call.place.ranks, call.place.nodes, call.bytes.value};
}

Result<void> check_points(const Machine& machine, const std::vector<SweepPoint>& points) {
  if (points.empty()) {
    return failure("no measured time to calibrate with");
  }
  for (const SweepPoint& point : points) {
    if (const Result<void> checked = check_point(machine, point); !checked) {
      return checked;
    }
  }
  if (is_doubled(points)) {
    return failure(fmt::format("{}: every row is there twice with the same time; give each sweep once",
                               points.front().where));
  }
  if (const std::size_t sizes = sizes_in(points).size(); sizes < k_fewest_sizes) {
    return failure(
        fmt::format("{}: {} message sizes; a fit needs {}", points.front().where, sizes, k_fewest_sizes));
  }
  for (const std::vector<SweepPoint>& series : series_of(points)) {
    if (const Result<void> checked = check_rising(series); !checked) {
      return checked;
    }
  }
  return {};
}

std::vector<std::string> doubts_of(const std::vector<SweepPoint>& points) {
  std::vector<std::string> doubts;
  std::map<PointKey, std::pair<const SweepPoint*, const SweepPoint*>> extremes;  // fastest, slowest
  for (const SweepPoint& point : points) {
    auto& [fastest, slowest] = extremes.try_emplace(key_of(point), &point, &point).first->second;
    fastest = point.us < fastest->us ? &point : fastest;
    slowest = point.us > slowest->us ? &point : slowest;
  }
  for (const auto& [key, extreme] : extremes) {
    const auto& [fastest, slowest] = extreme;
    if (!fastest->is_in_job && slowest->us > k_replicates_apart * fastest->us) {
      doubts.push_back(fmt::format("{}: {:g} us, and {:g} us of the same call at {}: the median is taken",
                                   fastest->where, fastest->us, slowest->us, slowest->where));
    }
  }
  for (const std::vector<SweepPoint>& series : series_of(points)) {
    add_doubts(series, doubts);
  }
  return doubts;
}

}  // namespace commlens
