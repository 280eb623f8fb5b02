#include "commlens/report/figures/runs_figure.hpp"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "commlens/base/sums.hpp"
#include "commlens/report/breakdown_report.hpp"
#include "commlens/report/figures/labels.hpp"
#include "commlens/report/vocabulary.hpp"

namespace commlens {
namespace {

/// Sums of one iteration: a whole number where it is one.
Cell each_iteration(std::int64_t sum, const std::optional<IterationCount>& of) {
  if (!of) {
    return {};
  }
  return sum % of->count == 0 ? Cell(sum / of->count)
                              : Cell(static_cast<double>(sum) / static_cast<double>(of->count));
}

Summary summary_of(const Trace& trace, const std::pair<Iteration, Iteration>& iterations) {
  SummaryOptions options;
  options.iterations = iterations;
  return summarise(trace, options);
}

/// What one iteration of a run asks for; no values where its iterations are not known.
std::vector<Cell> iteration_cells(const Trace& trace, const std::optional<IterationCount>& of) {
  const Summary summary = of ? summary_of(trace, of->iterations) : Summary{};
  return {each_iteration(summary.message.value, of),
          knows_wire(summary) ? each_iteration(summary.wire.value, of) : Cell(),
          each_iteration(summary.calls, of),
          summary.time ? each_iteration(summary.time->total.count(), of) : Cell()};
}

/// An op on groups of one size.
struct LabelSums {
  std::string op;
  std::int64_t calls = 0;
  Bytes message;
  Bytes wire;
  bool has_wire = true;
  std::optional<std::int64_t> time;
};

/// By kind and label: op and size of the group, since a recording may not know the axis.
std::map<std::pair<CommKind, std::string>, LabelSums> sums_by_label(const Trace& trace,
                                                                    const IterationCount& of) {
  std::map<std::pair<CommKind, std::string>, LabelSums> labels;
  SummaryOptions options;
  options.iterations = of.iterations;
  for (const SummaryRow& row : summary_rows(trace, options)) {
    const Axis axis = row.group_size == 1 ? Axis::self : Axis::unknown;
    const std::string label = call_label(trace, row.kind, row.name, axis, row.group_size);
    LabelSums& sums = labels[{row.kind, label}];
    sums.op = op_text(trace, row.kind, row.name);
    sums.calls = saturating_sum(sums.calls, row.calls);
    sums.message = saturating_sum(sums.message, row.message);
    sums.wire = saturating_sum(sums.wire, row.wire);
    sums.has_wire = sums.has_wire && row.knows_wire();
    if (row.time) {
      sums.time = saturating_sum(sums.time.value_or(0), row.time->total.count());
    }
  }
  return labels;
}

/// Distinct names for the chart.
std::vector<std::string> run_names(const FigureInput& input) {
  std::map<std::string, std::int64_t> seen;
  std::vector<std::string> names;
  for (const NamedTrace& run : input.all) {
    const std::int64_t before = seen[run.name]++;
    names.push_back(before == 0 ? run.name : fmt::format("{} #{}", run.name, before + 1));
  }
  return names;
}

}  // namespace

std::optional<IterationCount> iteration_count(const Trace& trace,
                                              const std::optional<std::pair<Iteration, Iteration>>& shown) {
  std::vector<Iteration> iterations = trace.iterations();
  if (shown) {
    std::erase_if(iterations,
                  [&](Iteration iteration) { return iteration < shown->first || iteration > shown->second; });
  }
  const bool has_unknown =
      std::any_of(trace.streams.begin(), trace.streams.end(), [](const RankStream& stream) {
        return std::any_of(stream.events.begin(), stream.events.end(),
                           [](const CommEvent& event) { return event.iteration == k_unknown_iteration; });
      });
  if (iterations.empty() || has_unknown) {
    return std::nullopt;
  }
  if (const auto training = training_of(trace, iterations)) {
    const auto inside = [&](Iteration iteration) {
      return iteration >= training->first && iteration <= training->second;
    };
    return IterationCount{*training, std::count_if(iterations.begin(), iterations.end(), inside)};
  }
  if (iterations.back() < 0) {
    return std::nullopt;  // initialisation alone
  }
  return IterationCount{{iterations.front(), iterations.back()}, std::ssize(iterations)};
}

FigureResult runs_figure(const FigureInput& input) {
  if (input.all.size() < 2) {
    return no_figure("one trace or configuration was given");
  }
  Table table(columns({"trace", "trace_source", "rank_count", "iteration_count", "calls_all_ranks",
                       "message_bytes_all_ranks", Column{"wire_bytes_all_ranks", "wire bytes, all ranks"},
                       Column{"time_ns_all_ranks", "time in calls"}, Column{"p50_ns", "P50 of a call"},
                       "message_bytes_per_iteration_all_ranks", "wire_bytes_per_iteration_all_ranks",
                       "calls_per_iteration_all_ranks", "time_ns_per_iteration_all_ranks"}));
  std::int64_t without_wire = 0;
  bool all_know = true;
  bool has_time = false;
  SummaryOptions options;
  options.iterations = input.iterations;
  const std::vector<std::string> names = run_names(input);
  for (std::size_t at = 0; at < input.all.size(); ++at) {
    const NamedTrace& run = input.all[at];
    const Summary summary = summarise(*run.trace, options);
    const std::optional<IterationCount> of = iteration_count(*run.trace, input.iterations);
    all_know = all_know && of;
    has_time = has_time || summary.time;
    table.add(concatenated(std::vector<Cell>{names[at], name_of(run.trace->provenance.source), summary.ranks,
                                             summary.iterations.size(), summary.calls, summary.message,
                                             knows_wire(summary) ? Cell(summary.wire) : Cell(),
                                             summary.time ? Cell(summary.time->total) : Cell(),
                                             summary.time ? Cell(summary.time->p50) : Cell()},
                           iteration_cells(*run.trace, of)));
    without_wire = saturating_sum(without_wire, summary.calls_without_wire);
  }
  Figure figure;
  figure.kind = FigureKind::bars;
  figure.caption = fmt::format(
      "What was given, over all ranks{}. Every other part of this report is about the first one, unless it "
      "says "
      "otherwise.",
      all_know ? ": what one iteration asks for, of recorded ones the mean without initialisation"
               : " and the iterations shown, since not all say which iteration a call is of");
  figure.columns = figure_columns(table);
  const std::string of = all_know ? "_per_iteration_all_ranks" : "_all_ranks";
  std::vector<std::string> toggles = {"message_bytes" + of, "wire_bytes" + of, "calls" + of};
  if (has_time) {
    toggles.emplace_back(all_know ? "time_ns_per_iteration_all_ranks" : "time_ns_all_ranks");
  }
  figure.options = {{"category", std::string("trace")}, {"value", toggles.front()}, {"toggles", toggles}};
  if (without_wire > 0) {
    figure.notes.push_back(fmt::format("Wire bytes are without {}, of which they are not known.",
                                       counted(without_wire, "calls")));
  }
  figure.formulas = {"message-bytes", "wire-bytes", "quantiles"};
  return figure;
}

FigureResult runs_by_op_figure(const FigureInput& input) {
  if (input.all.size() < 3) {
    return no_figure("fewer than three were given");
  }
  Table table(columns({"call", Column{"trace", "trace"}, "message_bytes_per_iteration_all_ranks",
                       "wire_bytes_per_iteration_all_ranks", "calls_per_iteration_all_ranks",
                       "time_ns_per_iteration_all_ranks", "op"}));
  Figure figure;
  const std::vector<std::string> names = run_names(input);
  bool has_time = false;
  for (std::size_t at = 0; at < input.all.size(); ++at) {
    const Trace& trace = *input.all[at].trace;
    const std::optional<IterationCount> of = iteration_count(trace, input.iterations);
    if (!of) {
      figure.notes.push_back(fmt::format("{} does not say which iteration a call is of.", names[at]));
      continue;
    }
    for (const auto& [key, sums] : sums_by_label(trace, *of)) {
      has_time = has_time || sums.time;
      table.add({key.second, names[at], each_iteration(sums.message.value, of),
                 sums.has_wire ? each_iteration(sums.wire.value, of) : Cell(), each_iteration(sums.calls, of),
                 sums.time ? each_iteration(*sums.time, of) : Cell(), sums.op});
    }
  }
  if (table.empty()) {
    return no_figure("none says which iteration a call is of");
  }
  std::vector<std::string> toggles = {"message_bytes_per_iteration_all_ranks",
                                      "wire_bytes_per_iteration_all_ranks", "calls_per_iteration_all_ranks"};
  if (has_time) {
    toggles.emplace_back("time_ns_per_iteration_all_ranks");
  } else {
    table.remove({"time_ns_per_iteration_all_ranks"});
  }
  figure.kind = FigureKind::bars;
  figure.caption =
      "Each op and size of group in one iteration of everything given, over all ranks: of predictions one "
      "iteration, of recordings the mean without initialisation.";
  figure.columns = figure_columns(table, {"op"});
  figure.options = bar_options("call", "trace", false, toggles);
  figure.formulas = {"message-bytes", "wire-bytes"};
  return figure;
}

}  // namespace commlens
