#include "commlens/report/figures/totals_figure.hpp"

#include <fmt/format.h>

#include "commlens/base/sums.hpp"
#include "commlens/report/figures/labels.hpp"
#include "commlens/report/vocabulary.hpp"

namespace commlens {
namespace {

/// Sums over all ranks.
struct PartSums {
  std::int64_t calls = 0;
  Bytes message;
  Bytes wire;
  std::optional<std::chrono::nanoseconds> time;
  bool has_wire = false;
};

PartSums sums_of(const Summary& summary) {
  PartSums sums{summary.calls, summary.message, summary.wire, std::nullopt, knows_wire(summary)};
  if (summary.time) {
    sums.time = summary.time->total;
  }
  return sums;
}

PartSums sums_of(const std::vector<SummaryRow>& rows) {
  PartSums sums;
  for (const SummaryRow& row : rows) {
    sums.calls = saturating_sum(sums.calls, row.calls);
    sums.message = saturating_sum(sums.message, row.message);
    if (row.knows_wire()) {
      sums.wire = saturating_sum(sums.wire, row.wire);
      sums.has_wire = true;
    }
    if (row.time) {
      sums.time = std::chrono::nanoseconds(
          saturating_sum(sums.time.value_or(std::chrono::nanoseconds{}).count(), row.time->total.count()));
    }
  }
  return sums;
}

/// A row of the table: `sums` of one of `parts` equal parts; a whole number stays one.
void add_part(Table& table, const std::string& what, const PartSums& sums, std::int64_t parts,
              std::int64_t ranks) {
  const auto share = [](std::int64_t sum, std::int64_t of) {
    return sum % of == 0 ? Cell(sum / of) : Cell(static_cast<double>(sum) / static_cast<double>(of));
  };
  const Cell none;
  table.add({what, share(sums.calls, parts), share(sums.message.value, parts),
             sums.has_wire ? share(sums.wire.value, parts) : none,
             sums.has_wire && ranks > 0 ? share(sums.wire.value, parts * ranks) : none,
             sums.time ? share(sums.time->count(), parts) : none});
}

}  // namespace

FigureResult totals_figure(const FigureInput& input) {
  const Summary& counted_summary = input.volumes();
  const std::int64_t iterations = counted_summary.iterations.size();
  if (iterations == 0 || counted_summary.coverage.without_iteration > 0) {
    return no_figure("the trace does not say which iteration a call is of");
  }
  const std::vector<Iteration> list = counted_summary.iterations.list();
  if (list.front() == k_init_iteration) {
    return no_figure("initialisation alone is shown, or beside iterations that were asked for");
  }
  const std::int64_t ranks = job_ranks(input.trace());
  Table table(columns({Column{"part", "part"}, Column{"calls_all_ranks", "calls"},
                       Column{"message_bytes_all_ranks", "message bytes"},
                       Column{"wire_bytes_all_ranks", "wire bytes"},
                       Column{"wire_bytes_mean_per_rank", "wire bytes of a rank"},
                       Column{"time_ns_all_ranks", "time in calls"}}));
  add_part(table,
           iterations == 1 ? fmt::format("one iteration ({})", list.front())
                           : fmt::format("one iteration, mean of {}", iterations_label(list)),
           sums_of(counted_summary), iterations, ranks);
  if (!input.init_by_phase.empty()) {
    add_part(table, "initialisation", sums_of(input.init_by_phase), 1, ranks);
  }
  add_part(table, "everything shown", sums_of(input.summary), 1, ranks);
  if (!input.summary.time) {
    table.remove({"time_ns_all_ranks"});
  }
  if (!knows_wire(input.summary) || is_printed_log(input.trace())) {
    table.remove({"wire_bytes_all_ranks", "wire_bytes_mean_per_rank"});
  }
  Figure figure;
  figure.caption = fmt::format(
      "What one iteration asks for, apart from initialisation: all ranks together, and the mean of a rank. "
      "Breakdown, message sizes and matrix count {}.",
      counted_iterations(input));
  figure.columns = figure_columns(table);
  figure.formulas = {"message-bytes", "wire-bytes"};
  return figure;
}

}  // namespace commlens
