#include "commlens/report/timing_tables.hpp"

#include <utility>

#include <fmt/format.h>

#include "commlens/report/breakdown_report.hpp"
#include "commlens/report/iteration_text.hpp"
#include "commlens/report/shares.hpp"
#include "commlens/report/vocabulary.hpp"

namespace commlens {
namespace {

using std::chrono::nanoseconds;

Cell part_cell(std::optional<nanoseconds> part, nanoseconds whole) {
  return part ? Cell(*part).shown(percent(part->count(), whole.count())) : or_dash({});
}

/// Of `time`, of all ranks.
Cell share_cell(std::optional<nanoseconds> part, nanoseconds whole) {
  return part ? commlens::share_cell(part->count(), whole.count()) : or_dash({});
}

/// Columns that ops and streams share.
std::vector<Column> total_columns() {
  return concatenated(
      columns({data("iteration_count"), data("span_ns_all_ranks"),
               Column{.key = "compute_ns_all_ranks", .in_text = false, .optional = true},
               Column{.key = "idle_ns_all_ranks", .in_text = false, .optional = true}}),
      communication_columns(ColumnScope::all_ranks),
      columns(
          {Column{.key = "hidden_share", .drop_first = 2, .optional = true},
           Column{
               .key = "exposed_share", .title = "exposed of all time", .drop_first = 1, .optional = true}}));
}

Cells total_cells(const OverlapTotal& row) {
  return concatenated(
      Cells{row.iterations, row.span, row.compute, row.idle}, communication_cells(row.time),
      Cells{share_cell(row.time.overlapped, row.time.total), share_cell(row.time.exposed, row.span)});
}

Cells lateness_cells(const Lateness& lateness) {
  return {lateness.instances, lateness.last, lateness.caused, lateness.mean_caused(), lateness.waited};
}

}  // namespace

Cell ranks_cell(RankRange ranks) {
  return Cell(std::vector<std::int64_t>{ranks.first.value, ranks.last.value}).shown(to_text(ranks));
}

Cell members_cell(const std::vector<Rank>& members) {
  std::vector<std::int64_t> numbers;
  for (const Rank rank : members) {
    numbers.push_back(rank.value);
  }
  return numbers;
}

std::vector<Column> communication_columns(ColumnScope scope) {
  const std::string of = scope == ColumnScope::all_ranks ? "_all_ranks" : "";
  return columns({Column{.key = "calls" + of}, data("sum_of_durations_ns" + of),
                  Column{.key = "communication_ns" + of}, Column{.key = "exposed_ns" + of, .optional = true},
                  Column{.key = "overlapped_ns" + of, .optional = true}});
}

Cells communication_cells(const CommunicationTime& time) {
  return {time.calls, time.sum, time.total, or_dash(time.exposed), or_dash(time.overlapped)};
}

Table overlap_by_rank_table(const std::vector<OverlapTotal>& rows) {
  Table table(columns(
      {"ranks", Column{.key = "iteration_count", .drop_first = 2}, "span_ns",
       Column{.key = "compute_ns", .drop_first = 1, .optional = true}, data("calls"),
       data("sum_of_durations_ns"), Column{.key = "communication_ns", .title = "communicating"},
       Column{.key = "exposed_ns", .optional = true}, Column{.key = "overlapped_ns", .optional = true},
       Column{.key = "idle_ns", .optional = true}}));
  for (const OverlapTotal& row : rows) {
    Cell iterations = row.iterations;
    table.add({ranks_cell(row.ranks),
               row.iterations == 0 ? std::move(iterations).shown("unknown") : iterations, row.span,
               part_cell(row.compute, row.span), row.time.calls, row.time.sum,
               part_cell(row.time.total, row.span), part_cell(row.time.exposed, row.span),
               part_cell(row.time.overlapped, row.span), part_cell(row.idle, row.span)});
  }
  return table;
}

Table overlap_by_op_table(const Trace& trace, const std::vector<OverlapTotal>& rows) {
  Table table(concatenated(columns({"op", Column{.key = "name", .in_text = false, .optional = true}}),
                           total_columns()));
  for (const OverlapTotal& row : rows) {
    const bool is_other = row.kind == CommKind::other;
    table.add(concatenated(Cells{Cell(name_of(row.kind)).shown(op_text(trace, row.kind, row.name)),
                                 is_other ? Cell(trace.names.text(row.name)) : Cell()},
                           total_cells(row)));
  }
  return table;
}

Table overlap_by_stream_table(const std::vector<OverlapTotal>& rows) {
  Table table(concatenated(
      columns({Column{.key = "axis", .title = "group"}, data("kind"), data("group_size")}), total_columns()));
  for (const OverlapTotal& row : rows) {
    const CommKind kind = row.is_pair ? CommKind::send : CommKind::all_reduce;
    table.add(concatenated(Cells{Cell(name_of(row.axis)).shown(group_text(kind, row.axis, row.group_size)),
                                 row.is_pair ? "pair" : "collective", row.group_size},
                           total_cells(row)));
  }
  return table;
}

Table collective_waits_table(const std::vector<CollectiveWait>& rows) {
  Table table(columns(
      {"op", data("axis"), Column{.key = "group_size", .title = "group", .align = Column::Align::left},
       "matched", Column{.key = "waited_ns_all_ranks", .title = "waiting"},
       Column{.key = "in_calls_ns_all_ranks", .title = "of the time in calls", .drop_first = 2},
       Column{.key = "longest_wait_ns", .title = "longest"}, Column{.key = "incomplete", .drop_first = 1}}));
  for (const CollectiveWait& row : rows) {
    table.add({name_of(row.kind), name_of(row.axis),
               Cell(row.group_size).shown(group_text(row.kind, row.axis, row.group_size)), row.instances,
               row.waited, Cell(row.in_calls).shown(percent(row.waited.count(), row.in_calls.count())),
               row.longest, row.incomplete});
  }
  return table;
}

Table lateness_table(const std::vector<RankLateness>& rows) {
  std::vector<Column> list = columns({"rank"});
  for (const std::string object : {"collectives", "messages"}) {
    for (Column& column : columns({"matched", "came_last", "caused_ns", "mean_caused_ns", "waited_ns"})) {
      column.json = object + "." + column.key;
      column.key = object + "_" + column.key;
      list.push_back(std::move(column));
    }
  }
  Table table(std::move(list));
  for (const RankLateness& row : rows) {
    Cells cells =
        concatenated(Cells{row.rank}, lateness_cells(row.collectives), lateness_cells(row.messages));
    if (row.messages.instances == 0) {
      cells.back() = Cell(row.messages.waited).shown("");
    }
    table.add(std::move(cells));
  }
  return table;
}

Table pair_waits_table(const std::vector<PairWait>& rows) {
  Table table(columns({Column{.key = "source_rank", .title = "from"},
                       Column{.key = "destination_rank", .title = "to"}, data("axis"),
                       Column{.key = "matched", .title = "messages"}, data("incomplete"), "sender_waited_ns",
                       Column{.key = "sender_first", .title = "times", .drop_first = 2}, "receiver_waited_ns",
                       Column{.key = "receiver_first", .title = "times ", .drop_first = 1}}));
  for (const PairWait& row : rows) {
    table.add({row.source, row.destination, name_of(row.axis), row.messages, row.incomplete,
               row.sender_waited, row.sender_first, row.receiver_waited, row.receiver_first});
  }
  return table;
}

Table worst_waits_table(const std::vector<WaitInstance>& rows) {
  Table table(
      columns({"op", data("axis"), Column{.key = "group", .align = Column::Align::left}, "iteration",
               Column{.key = "call_index", .title = "call", .drop_first = 1}, "last_rank",
               data("last_arrival_ns"), Column{.key = "waited_ns_all_ranks", .title = "others waited"},
               Column{.key = "longest_wait_ns", .title = "longest"}, data("longest_wait_rank")}));
  for (const WaitInstance& row : rows) {
    const bool is_known = row.iteration != k_unknown_iteration;
    table.add(
        {name_of(row.kind), name_of(row.axis),
         members_cell(row.members).shown(group_text(row.kind, row.axis, std::ssize(row.members))),
         is_known ? Cell(row.iteration) : Cell(), Cell(row.index).shown(with_commas(row.index)), row.last,
         row.last_arrival, row.waited,
         Cell(row.longest).shown(fmt::format("{} (rank {})", to_text(row.longest), row.longest_waiter.value)),
         row.longest_waiter});
  }
  return table;
}

Table bubbles_table(const std::vector<PipelineBubble>& rows) {
  Table table(columns({"ranks", "iteration", "span_ns", "bubble_ns", "in_pipeline_calls_ns", "from"}));
  for (const PipelineBubble& row : rows) {
    table.add({ranks_cell(row.ranks), iteration_cell(row.iteration), row.span, row.bubble(),
               row.in_pipeline_calls, row.idle ? "compute" : "calls"});
  }
  return table;
}

Table bubble_totals_table(const std::vector<BubbleTotal>& rows) {
  Table table(
      columns({"ranks", Column{.key = "iteration_count", .drop_first = 1}, "span_ns", "bubble_ns",
               Column{.key = "bubble_share", .title = "share"},
               Column{.key = "in_pipeline_calls_ns", .title = "in sends and receives", .drop_first = 2},
               data("from")}));
  for (const BubbleTotal& row : rows) {
    table.add({ranks_cell(row.ranks), row.iterations, row.span, row.bubble, share_cell(row.bubble, row.span),
               row.in_calls, row.is_idle_known ? "compute" : "calls"});
  }
  return table;
}

}  // namespace commlens
