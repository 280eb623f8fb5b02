#include "commlens/report/figures/labels.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "commlens/report/breakdown_report.hpp"
#include "commlens/report/coverage_report.hpp"

namespace commlens {
namespace {

/// "3", "0 to 2", "0, 2", "0 to 40, with gaps": ascending numbers, at least one.
std::string which_text(const std::vector<Iteration>& iterations) {
  constexpr std::size_t most = 8;
  const std::int64_t first = iterations.front();
  const std::int64_t last = iterations.back();
  if (first == last) {
    return fmt::format("{}", first);
  }
  const bool has_gaps = last - first + 1 != std::ssize(iterations);
  if (has_gaps && iterations.size() <= most) {
    return fmt::format("{}", fmt::join(iterations, ", "));
  }
  return fmt::format("{} to {}{}", first, last, has_gaps ? ", with gaps" : "");
}

}  // namespace

std::string call_label(const Trace& trace, CommKind kind, NameId name, Axis axis, std::int64_t group_size) {
  const std::string group = group_text(kind, axis, group_size);
  return op_text(trace, kind, name) + (group.empty() ? "" : " " + group);
}

std::string ranks_label(RankRange ranks) {
  if (!ranks.is_gapless()) {
    return "ranks " + to_text(ranks);
  }
  return ranks.count() == 1 ? fmt::format("rank {}", ranks.first.value)
                            : fmt::format("ranks {} to {}", ranks.first.value, ranks.last.value);
}

std::string counted(std::int64_t count, const std::string& many) {
  return fmt::format("{} {}", with_commas(count), count == 1 ? many.substr(0, many.size() - 1) : many);
}

std::string iterations_label(std::vector<Iteration> iterations) {
  if (iterations.empty() || iterations.front() == k_unknown_iteration) {
    return "iterations unknown";
  }
  const bool has_init = iterations.front() == k_init_iteration;
  if (has_init) {
    iterations.erase(iterations.begin());
  }
  if (iterations.empty()) {
    return "initialisation";
  }
  const auto count = static_cast<std::int64_t>(iterations.size());
  return fmt::format("{}{} ({})", has_init ? "initialisation and " : "", counted(count, "iterations"),
                     which_text(iterations));
}

bool is_shown(const FigureInput& input, Iteration iteration) {
  return !input.iterations || (iteration >= input.iterations->first && iteration <= input.iterations->second);
}

bool is_counted(const FigureInput& input, Iteration iteration) {
  return !input.training ? is_shown(input, iteration)
                         : iteration >= input.training->first && iteration <= input.training->second;
}

std::string counted_iterations(const FigureInput& input) {
  if (!input.training) {
    return "the iterations shown";
  }
  const auto [first, last] = *input.training;
  return first == last ? fmt::format("iteration {}", first)
                       : iterations_label(input.volumes().iterations.list()) + ", without initialisation";
}

bool is_printed_log(const Trace& trace) { return trace.provenance.accounting == Accounting::comms_logger; }

bool is_timed(const RankStream& stream) {
  return !stream.times.empty() || (stream.events.empty() && !stream.compute.empty());
}

bool has_times(const Trace& trace) {
  return !trace.provenance.averaged_times &&
         std::any_of(trace.streams.begin(), trace.streams.end(), is_timed);
}

std::string no_times_reason(const Trace& trace) {
  if (trace.provenance.averaged_times) {
    return fmt::format("the trace's times are {}", k_averages_text);
  }
  return trace.provenance.source == Source::predicted
             ? "a prediction knows calls and sizes, not when they happen"
             : "the trace has no times";
}

std::int64_t job_ranks(const Trace& trace) {
  const std::optional<Mesh>& mesh = trace.groups.mesh();
  return mesh ? mesh->ranks() : trace.job_ranks();
}

bool knows_wire(const Summary& summary) {
  return summary.calls == 0 || std::any_of(summary.rows.begin(), summary.rows.end(),
                                           [](const SummaryRow& row) { return row.knows_wire(); });
}

void note_unknown_wire(const Summary& summary, Figure& figure) {
  if (summary.calls_without_wire > 0) {
    figure.notes.push_back(
        fmt::format("Wire bytes are without {}, of which they are not known: the trace does not say how many "
                    "ranks take part, or they are of kind other.",
                    counted(summary.calls_without_wire, "calls")));
  }
}

}  // namespace commlens
