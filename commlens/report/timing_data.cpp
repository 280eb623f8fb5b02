#include <nlohmann/json.hpp>

#include "commlens/report/breakdown_report.hpp"
#include "commlens/report/iteration_text.hpp"
#include "commlens/report/slow_ranks_report.hpp"
#include "commlens/report/table_json.hpp"
#include "commlens/report/timing_report.hpp"
#include "commlens/report/timing_tables.hpp"
#include "commlens/report/vocabulary.hpp"

namespace commlens {
namespace {

using Json = nlohmann::ordered_json;
using std::chrono::nanoseconds;

void put(Json& json, const char* key, std::optional<nanoseconds> time) {
  if (time) {
    json[key] = time->count();
  }
}

Json overlap_json(const Trace& trace, const IterationOverlap& row) {
  // There may be many rows.
  static const std::vector<Column> of_rank = concatenated(
      columns({"ranks", "iteration", "start_ns", "span_ns", Column{.key = "compute_ns", .optional = true},
               Column{.key = "idle_ns", .optional = true}}),
      communication_columns(ColumnScope::rank));
  static const std::vector<Column> of_op = concatenated(
      columns({"op", Column{.key = "name", .optional = true}}), communication_columns(ColumnScope::rank));
  static const std::vector<Column> of_stream =
      concatenated(columns({"axis", "kind", "group", Column{.key = "communicator", .optional = true}}),
                   communication_columns(ColumnScope::rank));
  Json json = row_json(of_rank, concatenated(Cells{ranks_cell(row.ranks), iteration_cell(row.iteration),
                                                   row.span.started, row.length(), row.compute, row.idle},
                                             communication_cells(row.all)));
  json["ops"] = Json::array();
  for (const OpCommunication& op : row.ops) {
    const bool is_other = op.kind == CommKind::other;
    json["ops"].push_back(row_json(
        of_op, concatenated(Cells{name_of(op.kind), is_other ? Cell(trace.names.text(op.name)) : Cell()},
                            communication_cells(op.time))));
  }
  json["streams"] = Json::array();
  for (const StreamCommunication& stream : row.streams) {
    const bool is_known = stream.communicator != k_no_communicator;
    json["streams"].push_back(
        row_json(of_stream, concatenated(Cells{name_of(stream.axis), stream.is_pair ? "pair" : "collective",
                                               members_cell(stream.members),
                                               is_known ? Cell(text_of(stream.communicator)) : Cell()},
                                         communication_cells(stream.time))));
  }
  return json;
}

Json bubble_json(const Bubbles& bubbles) {
  Json json = Json::object();
  if (bubbles.shape) {
    json["stages"] = bubbles.shape->stages;
    json["micro_batches"] = bubbles.shape->micro_batches;
    json["chunks_per_rank"] = bubbles.shape->chunks;
    json["ideal_bubble_share"] = bubbles.shape->ideal_bubble();
  }
  json["rows"] = rows_json(bubbles_table(bubbles.rows));
  return json;
}

Json overlap_totals_json(const Trace& trace, const OverlapTotals& totals) {
  return {{"by_rank", rows_json(overlap_by_rank_table(totals.by_rank))},
          {"by_op", rows_json(overlap_by_op_table(trace, totals.by_op))},
          {"by_stream", rows_json(overlap_by_stream_table(totals.by_axis))},
          {"left_out_calls_all_ranks", totals.skipped_calls},
          {"left_out_rank_count", totals.skipped_ranks}};
}

Json waits_json(const Stragglers& waits) {
  Json json = {{"matched_collectives", waits.instances},
               {"matched_messages", waits.messages},
               {"incomplete", waits.incomplete},
               {"calls_of_unknown_groups_all_ranks", waits.without_group},
               {"calls_of_kind_other_all_ranks", waits.unclassified},
               {"calls_without_times_all_ranks", waits.without_times},
               {"calls_of_several_ranks_all_ranks", waits.of_several_ranks},
               {"calls_too_far_apart_all_ranks", waits.too_far_apart},
               {"between_calls", slow_ranks_json(waits.slow)}};
  put(json, "clock_error_ns", waits.clock_error);
  json["collectives"] = rows_json(collective_waits_table(waits.collectives));
  json["by_rank"] = rows_json(lateness_table(waits.ranks));
  json["pairs"] = rows_json(pair_waits_table(waits.pairs));
  json["worst"] = rows_json(worst_waits_table(waits.worst));
  return json;
}

/// Members of both kinds.
void put_totals(Json& json, const Trace& tables, const TimeTotals& times,
                const std::optional<Stragglers>& waits) {
  json["overlap_totals"] = overlap_totals_json(tables, times.overlap);
  if (tables.provenance.progress) {
    json["progress"] = *tables.provenance.progress;
  }
  if (waits) {
    json["waits"] = waits_json(*waits);
  }
  json["bubble_totals"] = rows_json(bubble_totals_table(times.bubbles.by_rank));
}

}  // namespace

Json timing_json(const Trace& trace, const Timing& timing) {
  Json json = {{"schema", "commlens.timing/2"}, {"overlap", Json::array()}};
  for (const IterationOverlap& row : timing.overlap) {
    json["overlap"].push_back(overlap_json(trace, row));
  }
  json["overlap_rows"] = timing.overlap_rows;
  put_totals(json, trace, timing.totals, timing.waits);
  json["bubble"] = bubble_json(timing.bubbles);
  json["bubble_rows"] = timing.bubble_rows;
  return json;
}

Json timing_totals_json(const Trace& tables, const TimingTotals& timing) {
  Json json = {{"schema", "commlens.timing/2"}};
  put_totals(json, tables, timing.times, timing.waits);
  return json;
}

}  // namespace commlens
