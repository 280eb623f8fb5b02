#include "commlens/report/timing_report.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "commlens/base/sums.hpp"
#include "commlens/base/wrapped.hpp"
#include "commlens/report/breakdown_report.hpp"
#include "commlens/report/most_rows.hpp"
#include "commlens/report/shares.hpp"
#include "commlens/report/slow_ranks_report.hpp"
#include "commlens/report/timing_tables.hpp"
#include "commlens/summary/overlap_totals.hpp"

namespace commlens {
namespace {

using std::chrono::nanoseconds;

std::string title_of(std::string_view text, const TextStyle& style) {
  return in_colour(text, Colour::bold, style) + "\n";
}

std::string overlap_ranks_text(std::vector<OverlapTotal> ranks, const TextStyle& style) {
  const std::string hidden =
      keep_most(ranks, "ranks with the longest exposed communication",
                [](const OverlapTotal& row) { return row.time.exposed.value_or(row.time.total); });
  return title_of("where the time of each rank goes", style) + hidden +
         overlap_by_rank_table(ranks).text_with_hidden(style);
}

/// Skipped calls and computing of unknown iterations, and skipped ranks.
std::string skipped_text(const OverlapTotals& totals) {
  std::string text;
  if (totals.has_skipped) {
    const std::int64_t calls = totals.skipped_calls;
    text += fmt::format(
        "skipped, iteration unknown: {}\n",
        calls == 0 ? "computing" : fmt::format("{} call{}", with_commas(calls), calls == 1 ? "" : "s"));
  }
  if (totals.skipped_ranks > 0) {
    text += fmt::format("skipped: {} rank{} with more calls than fit in memory\n",
                        with_commas(totals.skipped_ranks), totals.skipped_ranks == 1 ? "" : "s");
  }
  return text;
}

std::string overlap_text(const Trace& trace, const OverlapTotals& totals, const TextStyle& style) {
  std::string text = overlap_ranks_text(totals.by_rank, style) + wrapped(skipped_text(totals), style);
  if (!totals.knows_exposed) {
    text += wrapped(
        "exposed and overlapped communication are not known: the trace does not say when the ranks "
        "computed\n",
        style);
  }
  if (totals.knows_exposed && trace.provenance.progress == false) {
    text += wrapped(std::string(k_no_progress) + "\n", style);
  }
  if (totals.knows_exposed && trace.provenance.source == Source::simulated) {
    text += wrapped(std::string(k_simulated_exposed) + "\n", style);
  }
  if (totals.by_op.empty()) {
    return text;
  }
  text += "\n" + title_of("communication time per op, all ranks", style) +
          overlap_by_op_table(trace, totals.by_op).text_with_hidden(style);
  const std::vector<OverlapTotal>& groups = totals.by_axis;
  if (groups.size() == 1 && groups.front().axis == Axis::unknown && groups.front().group_size <= 0 &&
      !groups.front().is_pair) {
    return text;  // the sum of the ops again, under no name
  }
  return text + "\n" + title_of("communication time per stream, all ranks", style) +
         overlap_by_stream_table(groups).text_with_hidden(style);
}

std::string lateness_text(const Stragglers& waits, const TextStyle& style) {
  std::vector<RankLateness> rows = waits.ranks;
  const std::string hidden = keep_most(rows, "ranks that the others waited for longest",
                                       [](const RankLateness& row) { return row.collectives.caused; });
  const Table table = lateness_table(rows).picked(
      {"rank", Column{.key = "collectives_matched", .title = "collectives", .drop_first = 1},
       Column{.key = "collectives_came_last", .title = "came last"},
       Column{.key = "collectives_caused_ns", .title = "others waited"},
       Column{.key = "collectives_mean_caused_ns", .title = "each time", .drop_first = 2},
       Column{.key = "collectives_waited_ns", .title = "it waited"},
       Column{.key = "messages_waited_ns", .title = "in p2p it waited", .drop_first = 3}});
  return title_of("who came last, and what it cost", style) + hidden + table.text_with_hidden(style) +
         wrapped(
             "by when each rank came, on its clock: one that waited for a slow rank elsewhere comes last "
             "too\n",
             style);
}

std::string pairs_text(const Stragglers& waits, const TextStyle& style) {
  std::vector<PairWait> rows = waits.pairs;
  const std::string hidden = keep_most(rows, "pairs that waited longest", [](const PairWait& row) {
    return row.sender_waited + row.receiver_waited;
  });
  return title_of("which side of the messages waited", style) + hidden +
         pair_waits_table(rows).text_with_hidden(style);
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
  part(waits.of_several_ranks, "calls of streams of several ranks");
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
    text += "\n" + title_of("waiting for the last rank, all ranks", style) +
            collective_waits_table(waits.collectives).text_with_hidden(style) + "\n" +
            lateness_text(waits, style);
  }
  if (!waits.worst.empty()) {
    text += "\n" + title_of("collectives with the longest waits", style) +
            worst_waits_table(waits.worst).text_with_hidden(style);
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
  const std::string hidden =
      keep_most(rows, "ranks with the largest bubble", [](const BubbleTotal& row) { return row.bubble; });
  const bool is_idle_known =
      std::all_of(rows.begin(), rows.end(), [](const BubbleTotal& row) { return row.is_idle_known; });
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
  return "\n" + title_of("pipeline bubble", style) + hidden +
         bubble_totals_table(rows).text_with_hidden(style) + wrapped(notes, style);
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
