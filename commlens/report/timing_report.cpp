#include "commlens/report/timing_report.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "commlens/base/sums.hpp"
#include "commlens/base/wrapped.hpp"
#include "commlens/report/breakdown_report.hpp"
#include "commlens/report/most_rows.hpp"
#include "commlens/report/shares.hpp"
#include "commlens/report/slow_ranks_report.hpp"
#include "commlens/summary/overlap_totals.hpp"

namespace commlens {
namespace {

using std::chrono::nanoseconds;

constexpr Column::Align k_right = Column::Align::right;

std::string time_text(std::optional<nanoseconds> time) { return time ? to_text(*time) : "-"; }

std::string share_text(std::optional<nanoseconds> part, nanoseconds whole) {
  return part ? percent(part->count(), whole.count()) : "-";
}

std::string title_of(std::string_view text, const TextStyle& style) {
  return in_colour(text, Colour::bold, style) + "\n";
}

std::string overlap_ranks_text(std::vector<OverlapTotal> ranks, const TextStyle& style) {
  const std::string left_out =
      keep_most(ranks, "ranks with the longest exposed communication",
                [](const OverlapTotal& row) { return row.time.exposed.value_or(row.time.total); });
  Table table({{.title = "ranks", .align = k_right},
               {.title = "iterations", .align = k_right, .drop_first = 2},
               {.title = "time", .align = k_right},
               {.title = "computing", .align = k_right, .drop_first = 1},
               {.title = "communicating", .align = k_right},
               {.title = "exposed", .align = k_right},
               {.title = "overlapped", .align = k_right},
               {.title = "idle", .align = k_right}});
  for (const OverlapTotal& row : ranks) {
    table.add({to_text(row.ranks), row.iterations == 0 ? "unknown" : with_commas(row.iterations),
               to_text(row.span), share_text(row.compute, row.span), share_text(row.time.total, row.span),
               share_text(row.time.exposed, row.span), share_text(row.time.overlapped, row.span),
               share_text(row.idle, row.span)});
  }
  return title_of("where the time of each rank goes", style) + left_out + table.text_with_hidden(style);
}

/// What is left out: what belongs to no known iteration, and ranks.
std::string left_out_text(const OverlapTotals& totals) {
  std::string text;
  if (totals.leaves_out) {
    const std::int64_t calls = totals.calls_left_out;
    text += fmt::format(
        "left out, as of no known iteration: {}\n",
        calls == 0 ? "computing" : fmt::format("{} call{}", with_commas(calls), calls == 1 ? "" : "s"));
  }
  if (totals.ranks_left_out > 0) {
    text += fmt::format("left out: {} rank{} with more calls than are held in memory\n",
                        with_commas(totals.ranks_left_out), totals.ranks_left_out == 1 ? "" : "s");
  }
  return text;
}

std::vector<Column> overlap_columns() {
  return {{.title = "calls", .align = k_right},
          {.title = "time", .align = k_right},
          {.title = "exposed", .align = k_right},
          {.title = "overlapped", .align = k_right},
          {.title = "hidden", .align = k_right, .drop_first = 2},
          {.title = "exposed of all time", .align = k_right, .drop_first = 1}};
}

std::vector<Cell> overlap_cells(const OverlapTotal& row) {
  return {with_commas(row.time.calls),
          to_text(row.time.total),
          time_text(row.time.exposed),
          time_text(row.time.overlapped),
          share_text(row.time.overlapped, row.time.total),
          share_text(row.time.exposed, row.span)};
}

/// A table whose first column is `title`, filled by `name_of_row`.
template <typename NameOf>
std::string overlap_table(std::string_view title, const std::vector<OverlapTotal>& rows,
                          const NameOf& name_of_row, const TextStyle& style) {
  std::vector<Column> columns = {{.title = std::string(title)}};
  for (Column& column : overlap_columns()) {
    columns.push_back(std::move(column));
  }
  Table table(std::move(columns));
  for (const OverlapTotal& row : rows) {
    std::vector<Cell> cells = overlap_cells(row);
    cells.insert(cells.begin(), name_of_row(row));
    table.add(std::move(cells));
  }
  return table.text_with_hidden(style);
}

std::string overlap_text(const Trace& trace, const OverlapTotals& totals, const TextStyle& style) {
  std::string text = overlap_ranks_text(totals.by_rank, style) + wrapped(left_out_text(totals), style);
  if (!totals.knows_exposed) {
    text += wrapped(
        "exposed and overlapped communication are not known: the trace does not say when the ranks "
        "computed\n",
        style);
  }
  if (totals.knows_exposed && trace.provenance.progress == false) {
    text += wrapped(std::string(k_no_progress) + "\n", style);
  }
  if (totals.by_op.empty()) {
    return text;
  }
  text += "\n" + title_of("communication time per op, all ranks", style) +
          overlap_table(
              "op", totals.by_op, [&](const OverlapTotal& row) { return op_text(trace, row.kind, row.name); },
              style);
  const auto group_of = [](const OverlapTotal& row) {
    return group_text(row.is_pair ? CommKind::send : CommKind::all_reduce, row.axis, row.group_size);
  };
  const std::vector<OverlapTotal>& groups = totals.by_axis;
  if (groups.size() == 1 && group_of(groups.front()).empty()) {
    return text;  // the sum of the ops again, under no name
  }
  return text + "\n" + title_of("communication time per stream, all ranks", style) +
         overlap_table("group", groups, group_of, style);
}

std::string collectives_text(const Stragglers& waits, const TextStyle& style) {
  Table table({{.title = "op"},
               {.title = "group"},
               {.title = "matched", .align = k_right},
               {.title = "waiting", .align = k_right},
               {.title = "of the time in calls", .align = k_right, .drop_first = 2},
               {.title = "longest", .align = k_right},
               {.title = "incomplete", .align = k_right, .drop_first = 1}});
  for (const CollectiveWait& row : waits.collectives) {
    table.add({std::string(name_of(row.kind)), group_text(row.kind, row.axis, row.group_size),
               with_commas(row.instances), to_text(row.waited), share_text(row.waited, row.in_calls),
               to_text(row.longest), with_commas(row.incomplete)});
  }
  return table.text_with_hidden(style);
}

std::string lateness_text(const Stragglers& waits, const TextStyle& style) {
  std::vector<RankLateness> rows = waits.ranks;
  const std::string left_out = keep_most(rows, "ranks that the others waited for longest",
                                         [](const RankLateness& row) { return row.collectives.caused; });
  Table table({{.title = "rank", .align = k_right},
               {.title = "collectives", .align = k_right, .drop_first = 1},
               {.title = "came last", .align = k_right},
               {.title = "others waited", .align = k_right},
               {.title = "each time", .align = k_right, .drop_first = 2},
               {.title = "it waited", .align = k_right},
               {.title = "in p2p it waited", .align = k_right, .drop_first = 3}});
  for (const RankLateness& row : rows) {
    const Lateness& late = row.collectives;
    table.add({std::to_string(row.rank.value), with_commas(late.instances), with_commas(late.last),
               to_text(late.caused), to_text(late.mean_caused()), to_text(late.waited),
               row.messages.instances > 0 ? to_text(row.messages.waited) : ""});
  }
  return title_of("who came last, and what it cost", style) + left_out + table.text_with_hidden(style) +
         wrapped(
             "by when each rank came, on its clock: one that waited for a slow rank elsewhere comes last "
             "too\n",
             style);
}

std::string worst_text(const Stragglers& waits, const TextStyle& style) {
  Table table({{.title = "op"},
               {.title = "group"},
               {.title = "iteration", .align = k_right},
               {.title = "call", .align = k_right, .drop_first = 1},
               {.title = "last rank", .align = k_right},
               {.title = "others waited", .align = k_right},
               {.title = "longest", .align = k_right}});
  for (const WaitInstance& row : waits.worst) {
    table.add({std::string(name_of(row.kind)), group_text(row.kind, row.axis, std::ssize(row.members)),
               row.iteration == k_unknown_iteration ? "" : std::to_string(row.iteration),
               with_commas(row.index), std::to_string(row.last.value), to_text(row.waited),
               fmt::format("{} (rank {})", to_text(row.longest), row.longest_waiter.value)});
  }
  return title_of("collectives with the longest waits", style) + table.text_with_hidden(style);
}

std::string pairs_text(const Stragglers& waits, const TextStyle& style) {
  std::vector<PairWait> rows = waits.pairs;
  const std::string left_out = keep_most(rows, "pairs that waited longest", [](const PairWait& row) {
    return row.sender_waited + row.receiver_waited;
  });
  Table table({{.title = "from", .align = k_right},
               {.title = "to", .align = k_right},
               {.title = "messages", .align = k_right},
               {.title = "sender waited", .align = k_right},
               {.title = "times", .align = k_right, .drop_first = 2},
               {.title = "receiver waited", .align = k_right},
               {.title = "times ", .align = k_right, .drop_first = 1}});
  for (const PairWait& row : rows) {
    table.add({std::to_string(row.source.value), std::to_string(row.destination.value),
               with_commas(row.messages), to_text(row.sender_waited), with_commas(row.sender_first),
               to_text(row.receiver_waited), with_commas(row.receiver_first)});
  }
  return title_of("which side of the messages waited", style) + left_out + table.text_with_hidden(style);
}

std::string unmatched_text(const Stragglers& waits, const TextStyle& style) {
  std::string text;
  const auto part = [&](std::int64_t count, std::string_view what) {
    if (count > 0) {
      text += fmt::format("{}{} {}", text.empty() ? "not matched: " : ", ", with_commas(count), what);
    }
  };
  part(waits.incomplete, "that lack the call of a rank");
  part(waits.without_group, "calls of unknown groups");
  part(waits.unclassified, "calls of kind other");
  part(waits.without_times, "calls without times");
  part(waits.of_several_ranks, "calls of streams that stand for several ranks");
  part(waits.too_far_apart, "calls of groups whose ranks make them in too different an order");
  text += text.empty() ? "" : "\n";
  if (waits.clock_error && *waits.clock_error > nanoseconds(0)) {
    text += fmt::format("clocks of two processes may differ by {}; shorter waits mean nothing\n",
                        to_text(*waits.clock_error));
  }
  return wrapped(text, style);
}

std::string waits_text(const Stragglers& waits, const TextStyle& style) {
  std::string text = slow_ranks_text(waits.slow, style);
  if (waits.instances > 0) {
    text += "\n" + title_of("waiting for the last rank, all ranks", style) + collectives_text(waits, style) +
            "\n" + lateness_text(waits, style);
  }
  if (!waits.worst.empty()) {
    text += "\n" + worst_text(waits, style);
  }
  if (waits.messages > 0) {
    text += "\n" + pairs_text(waits, style);
  }
  const std::string unmatched = unmatched_text(waits, style);
  return text + (text.empty() && !unmatched.empty() ? "\n" : "") + unmatched;
}

std::string bubble_text(const BubbleTotals& bubbles, const TextStyle& style) {
  std::vector<BubbleTotal> rows = bubbles.by_rank;
  if (rows.empty()) {
    return {};
  }
  const std::string left_out =
      keep_most(rows, "ranks with the largest bubble", [](const BubbleTotal& row) { return row.bubble; });
  Table table({{.title = "ranks", .align = k_right},
               {.title = "iterations", .align = k_right, .drop_first = 1},
               {.title = "time", .align = k_right},
               {.title = "bubble", .align = k_right},
               {.title = "share", .align = k_right},
               {.title = "in sends and receives", .align = k_right, .drop_first = 2}});
  bool is_idle_known = true;
  for (const BubbleTotal& row : rows) {
    is_idle_known = is_idle_known && row.is_idle_known;
    table.add({to_text(row.ranks), with_commas(row.iterations), to_text(row.span), to_text(row.bubble),
               share_text(row.bubble, row.span), to_text(row.in_calls)});
  }
  std::string notes;
  if (bubbles.shape) {
    const PipelineShape& shape = *bubbles.shape;
    constexpr double hundred = 100;
    notes = fmt::format("ideal: {:.1f} %, {} stages, {} micro-batch{}, {} chunk{} a rank\n",
                        hundred * shape.ideal_bubble(), shape.stages, shape.micro_batches,
                        shape.micro_batches == 1 ? "" : "es", shape.chunks, shape.chunks == 1 ? "" : "s");
  }
  if (!is_idle_known) {
    notes += "without compute times the bubble is the time in sends and receives of the pipeline\n";
  }
  return "\n" + title_of("pipeline bubble", style) + left_out + table.text_with_hidden(style) +
         wrapped(notes, style);
}

}  // namespace

void select_rank(Stragglers& waits, const TimeSelection& selection) {
  if (selection.rank) {
    std::erase_if(waits.ranks, [&](const RankLateness& row) { return row.rank != *selection.rank; });
  }
}

Timing timing_of(const Trace& trace, const TimeSelection& selection, bool with_stragglers,
                 std::size_t most_rows) {
  FirstOverlapRows first = first_overlap_rows(trace, selection, most_rows);
  const bool is_whole = std::ssize(first.rows) == first.total;
  Timing timing{.overlap = std::move(first.rows),
                .overlap_rows = first.total,
                .bubbles = pipeline_bubbles(trace, selection)};
  timing.bubble_rows = std::ssize(timing.bubbles.rows);
  timing.totals = is_whole ? TimeTotals{overlap_totals(timing.overlap), bubble_totals(timing.bubbles)}
                           : time_totals(trace, selection);
  timing.bubbles.rows.resize(std::min(timing.bubbles.rows.size(), most_rows));
  if (with_stragglers) {
    timing.waits = stragglers(trace, {.iterations = selection.iterations});
    select_rank(*timing.waits, selection);
  }
  return timing;
}

TimingTotals timing_totals_of(const Trace& trace, const TimeSelection& selection, bool with_stragglers) {
  TimingTotals timing{time_totals(trace, selection), std::nullopt};
  if (with_stragglers) {
    timing.waits = stragglers(trace, {.iterations = selection.iterations});
    select_rank(*timing.waits, selection);
  }
  return timing;
}

std::string timing_text(const Trace& tables, const TimingTotals& timing, const TextStyle& style) {
  if (timing.times.overlap.empty()) {
    return "the trace has no times\n";
  }
  return overlap_text(tables, timing.times.overlap, style) +
         (timing.waits ? waits_text(*timing.waits, style) : "") + bubble_text(timing.times.bubbles, style);
}

}  // namespace commlens
