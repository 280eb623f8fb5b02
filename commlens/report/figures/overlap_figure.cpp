#include "commlens/report/figures/overlap_figure.hpp"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "commlens/report/figures/labels.hpp"
#include "commlens/summary/overlap.hpp"

namespace commlens {
namespace {

/// Parts of one rank's time, summed over iterations.
struct Parts {
  std::chrono::nanoseconds length{};
  std::chrono::nanoseconds total{};
  std::chrono::nanoseconds exposed{};
  std::chrono::nanoseconds overlapped{};
  std::chrono::nanoseconds compute{};
  std::chrono::nanoseconds idle{};
  std::int64_t iterations = 0;
  bool knows_compute = true;
};

std::map<RankRange, Parts> parts_by_rank(const std::vector<IterationOverlap>& rows) {
  std::map<RankRange, Parts> ranks;
  for (const IterationOverlap& row : rows) {
    Parts& parts = ranks[row.ranks];
    ++parts.iterations;
    parts.length += row.length();
    parts.total += row.all.total;
    parts.exposed += row.all.exposed.value_or(row.all.total);
    parts.overlapped += row.all.overlapped.value_or(std::chrono::nanoseconds{});
    parts.compute += row.compute.value_or(std::chrono::nanoseconds{});
    parts.idle += row.idle.value_or(std::chrono::nanoseconds{});
    parts.knows_compute = parts.knows_compute && row.all.exposed.has_value();
  }
  return ranks;
}

/// One row per rank and part of its time.
struct PartColumns {
  FigureColumn rank = text_column("rank", "rank");
  FigureColumn part = text_column("part", "part of the time");
  FigureColumn time = whole_column("time_ns", "time", "ns");
  FigureColumn share = number_column("share", "share of the rank's iterations", "share");

  void add(const std::string& who, const char* name, std::chrono::nanoseconds spent,
           std::chrono::nanoseconds whole) {
    texts(rank).add(who);
    texts(part).add(name);
    wholes(time).push_back(spent.count());
    numbers(share).push_back(static_cast<double>(spent.count()) /
                             static_cast<double>(std::max<std::int64_t>(whole.count(), 1)));
  }
};

}  // namespace

FigureResult overlap_figure(const FigureInput& input) {
  if (!has_times(input.trace())) {
    return no_figure(no_times_reason(input.trace()));
  }
  const auto ranks =
      parts_by_rank(communication_overlap(input.trace(), {.iterations = input.iterations, .rank = {}}));
  if (ranks.empty()) {
    return no_figure("no call of the iterations shown has a time");
  }
  PartColumns columns;
  bool all_know = true;
  std::chrono::nanoseconds exposed{};
  std::chrono::nanoseconds length{};
  for (const auto& [range, parts] : ranks) {
    const std::string who = ranks_label(range);
    length += parts.length;
    exposed += parts.exposed;
    if (parts.knows_compute) {
      columns.add(who, "computing only", parts.compute - parts.overlapped, parts.length);
      columns.add(who, "communication behind computing", parts.overlapped, parts.length);
      columns.add(who, "exposed communication", parts.exposed, parts.length);
      columns.add(who, "neither", parts.idle, parts.length);
    } else {
      all_know = false;
      columns.add(who, "communication", parts.total, parts.length);
      columns.add(who, "not in a call", parts.length - parts.total, parts.length);
    }
  }
  Figure figure;
  figure.kind = FigureKind::bars;
  const double share =
      static_cast<double>(exposed.count()) / static_cast<double>(std::max<std::int64_t>(length.count(), 1));
  figure.caption =
      all_know
          ? fmt::format(
                "Where the time of each rank's iterations went. Over all ranks {:.1f} % of it is exposed "
                "communication: in calls, and not computing.",
                100 * share)
          : fmt::format(
                "How much of each rank's iterations was spent in calls: {:.1f} % over all ranks. The trace "
                "does not say when {} computed, so what is hidden behind computing is not known.",
                100 * share, ranks.size() == 1 ? "the rank" : "every rank");
  figure.columns = {std::move(columns.rank), std::move(columns.part), std::move(columns.time),
                    std::move(columns.share)};
  figure.options = {{"category", std::string("rank")},
                    {"series", std::string("part")},
                    {"value", std::string("time_ns")},
                    {"stacked", true},
                    {"toggles", std::vector<std::string>{"time_ns", "share"}}};
  figure.formulas = {"overlap"};
  return figure;
}

}  // namespace commlens
