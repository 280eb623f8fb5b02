// First and later messages of each pair of pipeline stages: the paper's remark that receives are slow at
// first.
#include "commlens/app/reproduce/cold_receive.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iterator>

#include <fmt/format.h>

#include "commlens/app/reproduce/items.hpp"

namespace commlens::study {
namespace {

constexpr const char* k_threads_setting = "threads of one process";
constexpr const char* k_four_stages = "pp-4";  // of the trainings between threads

std::chrono::nanoseconds whole_ns(double ns) { return std::chrono::nanoseconds(std::llround(ns)); }

Cell moving_cell(const CallTime& time) { return time.moving ? Cell(*time.moving) : Cell(); }

Cell ratio_cell(std::chrono::nanoseconds first, std::chrono::nanoseconds later) {
  return later.count() > 0 ? Cell(static_cast<double>(first.count()) / static_cast<double>(later.count()))
                           : Cell();
}

bool makes_connection(const ColdStages& stages, const PairCalls& pair) {
  return std::ranges::find(stages.connected, std::pair(pair.source, pair.destination)) !=
         stages.connected.end();
}

void add_pairs(Sheet& sheet, const ColdStages& stages, const std::string& panel) {
  for (const PairCalls& pair : stages.pairs) {
    const bool is_receive = pair.op == CommKind::recv;
    const std::string bar = fmt::format("{} to {}{}", pair.source.value, pair.destination.value,
                                        makes_connection(stages, pair) ? ", connects" : "");
    const auto add = [&](const char* part, std::int64_t calls, const CallTime& time, Cell slowdown) {
      sheet.add({is_receive ? panel : "", stages.setting, bar, name_of(pair.op), pair.source.value,
                 pair.destination.value, part, calls, pair.message, time.duration, moving_cell(time),
                 std::move(slowdown)},
                stages.series);
    };
    add("first", 1, pair.first, ratio_cell(pair.first.duration, pair.later.duration));
    add("later, median", pair.later_calls, pair.later, Cell());
  }
}

/// "Open MPI, TCP: first receives of 6 pairs 3.1 ms, later 0.4 ms, 7.8 times; …".
std::string cold_note(const ColdStages& stages) {
  const ColdTimes receives = cold_times(stages.pairs, CommKind::recv);
  const ColdTimes sends = cold_times(stages.pairs, CommKind::send);
  return fmt::format(
      "{}: the first receives of {} pairs took {}, later ones {}: {:.1f} times as long. From when the sender "
      "had begun, too, {} against {}: {:.1f} times. Sends: {} against {}: {:.1f} times.",
      stages.setting, receives.pairs, to_text(whole_ns(receives.first_ns)),
      to_text(whole_ns(receives.later_ns)), receives.slowdown(), to_text(whole_ns(receives.first_moving_ns)),
      to_text(whole_ns(receives.later_moving_ns)), receives.moving_slowdown(),
      to_text(whole_ns(sends.first_ns)), to_text(whole_ns(sends.later_ns)), sends.slowdown());
}

/// What Open MPI says of connections, and how long the messages took that made them.
std::string connection_note(const ColdStages& stages) {
  std::string text;
  for (const PairCalls& pair : connecting_pairs(stages)) {
    if (pair.op == CommKind::recv && pair.first.moving && pair.later.moving) {
      text += fmt::format(" That from {} to {} was received {} after both had begun, later ones {}.",
                          pair.source.value, pair.destination.value, to_text(*pair.first.moving),
                          to_text(*pair.later.moving));
    }
  }
  return text.empty()
             ? text
             : fmt::format(
                   "{}: by Open MPI's own account the first message of the pairs marked \"connects\" "
                   "made their connection; the calls that set up the job had made the others.{}",
                   stages.setting, text);
}

}  // namespace

std::vector<ColdStages> cold_stages(const Study& study) {
  std::vector<ColdStages> all;
  if (const Recording* const threads = study.recording(k_four_stages)) {
    all.push_back({"threads", k_threads_setting, recorded_series(*threads), pair_calls(threads->trace)});
  }
  for (const RecordedStages& stages : study.stages()) {
    all.push_back({stages.name,
                   stages.setting,
                   {fmt::format("commlens over {}", stages.setting), Evidence::recorded_here,
                    fmt::format("`{}`", stages.command)},
                   pair_calls(stages.trace),
                   stages.connected,
                   true});
  }
  return all;
}

std::vector<PairCalls> connecting_pairs(const ColdStages& stages) {
  std::vector<PairCalls> connecting;
  std::ranges::copy_if(stages.pairs, std::back_inserter(connecting),
                       [&](const PairCalls& pair) { return makes_connection(stages, pair); });
  return connecting;
}

ColdTimes cold_times(const std::vector<PairCalls>& pairs, CommKind op) {
  ColdTimes sum;
  for (const PairCalls& pair : pairs) {
    if (pair.op == op && pair.later_calls > 0) {
      ++sum.pairs;
      sum.first_ns += static_cast<double>(pair.first.duration.count());
      sum.later_ns += static_cast<double>(pair.later.duration.count());
      sum.first_moving_ns +=
          static_cast<double>(pair.first.moving.value_or(std::chrono::nanoseconds(0)).count());
      sum.later_moving_ns +=
          static_cast<double>(pair.later.moving.value_or(std::chrono::nanoseconds(0)).count());
    }
  }
  if (sum.pairs > 0) {
    const auto pairs_in_all = static_cast<double>(sum.pairs);
    sum.first_ns /= pairs_in_all;
    sum.later_ns /= pairs_in_all;
    sum.first_moving_ns /= pairs_in_all;
    sum.later_moving_ns /= pairs_in_all;
  }
  return sum;
}

std::optional<ColdSlowdowns> connecting_slowdowns(const ColdStages& stages) {
  ColdSlowdowns slowdowns;
  for (const PairCalls& pair : connecting_pairs(stages)) {
    if (pair.op != CommKind::recv || !pair.first.moving || !pair.later.moving ||
        pair.later.moving->count() <= 0) {
      continue;
    }
    const double slowdown =
        static_cast<double>(pair.first.moving->count()) / static_cast<double>(pair.later.moving->count());
    slowdowns.least = slowdowns.pairs == 0 ? slowdown : std::min(slowdowns.least, slowdown);
    slowdowns.most = std::max(slowdowns.most, slowdown);
    slowdowns.mean += slowdown;
    ++slowdowns.pairs;
  }
  slowdowns.mean /= static_cast<double>(std::max<std::int64_t>(slowdowns.pairs, 1));
  return slowdowns.pairs > 0 ? std::optional(slowdowns) : std::nullopt;
}

ItemResult cold_receive(Study& study) {
  const std::vector<ColdStages> all = cold_stages(study);
  if (all.empty()) {
    return no_figure(study.stages_not_recorded().empty()
                         ? "no stages were trained: that takes a run without --no-train"
                         : study.stages_not_recorded().front());
  }
  Sheet sheet({"panel", "setting", "bar", "op", "source_rank", "destination_rank", "part", "count",
               "message_bytes", "duration_ns", "moving_ns", "cold_slowdown"});
  const Drawing drawing{
      FigureKind::bars,
      bar_options("bar", "part", false, {"duration_ns", "moving_ns"}),
      {"panel", "setting", "op", "source_rank", "destination_rank", "series", "evidence", "provenance"}};
  Item item;
  char letter = 'a';
  std::vector<std::pair<std::string, std::string>> panels;
  for (const ColdStages& stages : all) {
    panels.emplace_back(std::string(1, letter++), stages.setting);
    add_pairs(sheet, stages, panels.back().first);
  }
  item.whole =
      whole_of(sheet,
               "The first receive of each pair of stages, which has to wait for the stage before and, where "
               "connections are made when they are needed, for the connection; and the median of the "
               "later ones. Recorded here, four pipeline stages of a narrow model. Moving: from when both "
               "ends had begun.",
               drawing);
  for (const auto& [panel, setting] : panels) {
    item.panels.push_back(panel_of(rows_with(sheet.table(), "panel", panel), "cold-receive-" + panel,
                                   fmt::format("Receives, {}", setting), "", drawing));
  }
  for (const ColdStages& stages : all) {
    item.whole.notes.push_back(cold_note(stages));
    if (const std::string made = connection_note(stages); !made.empty()) {
      item.whole.notes.push_back(made);
    }
  }
  for (const std::string& reason : study.stages_not_recorded()) {
    item.whole.notes.push_back(fmt::format("Not recorded here: {}.", reason));
  }
  return item;
}

}  // namespace commlens::study
