#include <nlohmann/json.hpp>

#include "commlens/report/breakdown_report.hpp"
#include "commlens/report/iteration_text.hpp"
#include "commlens/report/slow_ranks_report.hpp"
#include "commlens/report/timing_report.hpp"

namespace commlens {
namespace {

using Json = nlohmann::ordered_json;
using std::chrono::nanoseconds;

Json ranks_json(const std::vector<Rank>& ranks) {
  Json list = Json::array();
  for (const Rank rank : ranks) {
    list.push_back(rank.value);
  }
  return list;
}

void put(Json& json, const char* key, std::optional<nanoseconds> time) {
  if (time) {
    json[key] = time->count();
  }
}

void put_time(Json& json, const CommunicationTime& time) {
  json["calls"] = time.calls;
  json["sum_of_durations_ns"] = time.sum.count();
  json["communication_ns"] = time.total.count();
  put(json, "exposed_ns", time.exposed);
  put(json, "overlapped_ns", time.overlapped);
}

Json overlap_json(const Trace& trace, const IterationOverlap& row) {
  Json json = {{"ranks", {row.ranks.first.value, row.ranks.last.value}},
               {"iteration", iteration_json(row.iteration)},
               {"start_ns", row.span.started.count()},
               {"span_ns", row.length().count()}};
  put(json, "compute_ns", row.compute);
  put(json, "idle_ns", row.idle);
  put_time(json, row.all);
  json["ops"] = Json::array();
  for (const OpCommunication& op : row.ops) {
    Json part = {{"op", op_text(trace, op.kind, op.name)}};
    put_time(part, op.time);
    json["ops"].push_back(std::move(part));
  }
  json["streams"] = Json::array();
  for (const StreamCommunication& stream : row.streams) {
    Json part = {{"axis", name_of(stream.axis)},
                 {"kind", stream.is_pair ? "pair" : "collective"},
                 {"group", ranks_json(stream.members)}};
    if (stream.communicator != k_no_communicator) {
      part["communicator"] = text_of(stream.communicator);
    }
    put_time(part, stream.time);
    json["streams"].push_back(std::move(part));
  }
  return json;
}

Json lateness_json(const Lateness& lateness) {
  return {{"matched", lateness.instances},
          {"came_last", lateness.last},
          {"caused_ns", lateness.caused.count()},
          {"mean_caused_ns", lateness.mean_caused().count()},
          {"waited_ns", lateness.waited.count()}};
}

Json worst_json(const WaitInstance& row) {
  return {{"op", name_of(row.kind)},
          {"axis", name_of(row.axis)},
          {"group", ranks_json(row.members)},
          {"iteration", iteration_json(row.iteration)},
          {"call", row.index},
          {"last_rank", row.last.value},
          {"last_arrival_ns", row.last_arrival.count()},
          {"waited_ns", row.waited.count()},
          {"longest_rank", row.longest_waiter.value},
          {"longest_ns", row.longest.count()}};
}

Json bubble_json(const Bubbles& bubbles) {
  Json json = Json::object();
  if (bubbles.shape) {
    json["stages"] = bubbles.shape->stages;
    json["micro_batches"] = bubbles.shape->micro_batches;
    json["chunks_per_rank"] = bubbles.shape->chunks;
    json["ideal_share"] = bubbles.shape->ideal_bubble();
  }
  json["rows"] = Json::array();
  for (const PipelineBubble& row : bubbles.rows) {
    Json part = {{"ranks", {row.ranks.first.value, row.ranks.last.value}},
                 {"iteration", iteration_json(row.iteration)},
                 {"span_ns", row.span.count()},
                 {"bubble_ns", row.bubble().count()},
                 {"in_pipeline_calls_ns", row.in_pipeline_calls.count()},
                 {"from", row.idle ? "compute" : "calls"}};
    json["rows"].push_back(std::move(part));
  }
  return json;
}

Json total_json(const OverlapTotal& total) {
  Json json = {{"iterations", total.iterations}, {"span_ns", total.span.count()}};
  put(json, "compute_ns", total.compute);
  put(json, "idle_ns", total.idle);
  put_time(json, total.time);
  return json;
}

Json overlap_totals_json(const Trace& trace, const OverlapTotals& totals) {
  Json json = {{"ranks", Json::array()},
               {"ops", Json::array()},
               {"streams", Json::array()},
               {"calls_of_no_known_iteration", totals.calls_left_out},
               {"ranks_left_out", totals.ranks_left_out}};
  const auto add = [&](const char* list, Json row, const OverlapTotal& total) {
    row.update(total_json(total));
    json[list].push_back(std::move(row));
  };
  for (const OverlapTotal& total : totals.by_rank) {
    add("ranks", {{"ranks", {total.ranks.first.value, total.ranks.last.value}}}, total);
  }
  for (const OverlapTotal& total : totals.by_op) {
    add("ops", {{"op", op_text(trace, total.kind, total.name)}}, total);
  }
  for (const OverlapTotal& total : totals.by_axis) {
    add("streams",
        {{"axis", name_of(total.axis)},
         {"kind", total.is_pair ? "pair" : "collective"},
         {"group_size", total.group_size}},
        total);
  }
  return json;
}

Json bubble_totals_json(const BubbleTotals& bubbles) {
  Json json = Json::array();
  for (const BubbleTotal& row : bubbles.by_rank) {
    json.push_back({{"ranks", {row.ranks.first.value, row.ranks.last.value}},
                    {"iterations", row.iterations},
                    {"span_ns", row.span.count()},
                    {"bubble_ns", row.bubble.count()},
                    {"in_pipeline_calls_ns", row.in_calls.count()},
                    {"from", row.is_idle_known ? "compute" : "calls"}});
  }
  return json;
}

Json waits_json(const Stragglers& waits) {
  Json json = {{"matched_collectives", waits.instances},
               {"matched_messages", waits.messages},
               {"incomplete", waits.incomplete},
               {"calls_of_unknown_groups", waits.without_group},
               {"calls_of_kind_other", waits.unclassified},
               {"calls_without_times", waits.without_times},
               {"calls_of_several_ranks", waits.of_several_ranks},
               {"calls_too_far_apart", waits.too_far_apart},
               {"between_calls", slow_ranks_json(waits.slow)}};
  put(json, "clock_error_ns", waits.clock_error);
  json["collectives"] = Json::array();
  for (const CollectiveWait& row : waits.collectives) {
    json["collectives"].push_back({{"op", name_of(row.kind)},
                                   {"axis", name_of(row.axis)},
                                   {"group_size", row.group_size},
                                   {"matched", row.instances},
                                   {"incomplete", row.incomplete},
                                   {"waited_ns", row.waited.count()},
                                   {"in_calls_ns", row.in_calls.count()},
                                   {"longest_ns", row.longest.count()}});
  }
  json["ranks"] = Json::array();
  for (const RankLateness& row : waits.ranks) {
    json["ranks"].push_back({{"rank", row.rank.value},
                             {"collectives", lateness_json(row.collectives)},
                             {"messages", lateness_json(row.messages)}});
  }
  json["pairs"] = Json::array();
  for (const PairWait& row : waits.pairs) {
    json["pairs"].push_back({{"source", row.source.value},
                             {"destination", row.destination.value},
                             {"axis", name_of(row.axis)},
                             {"matched", row.messages},
                             {"incomplete", row.incomplete},
                             {"sender_first", row.sender_first},
                             {"receiver_first", row.receiver_first},
                             {"sender_waited_ns", row.sender_waited.count()},
                             {"receiver_waited_ns", row.receiver_waited.count()}});
  }
  json["worst"] = Json::array();
  for (const WaitInstance& row : waits.worst) {
    json["worst"].push_back(worst_json(row));
  }
  return json;
}

/// What both kinds have.
void put_totals(Json& json, const Trace& tables, const TimeTotals& times,
                const std::optional<Stragglers>& waits) {
  json["overlap_totals"] = overlap_totals_json(tables, times.overlap);
  if (tables.provenance.progress) {
    json["progress"] = *tables.provenance.progress;
  }
  if (waits) {
    json["waits"] = waits_json(*waits);
  }
  json["bubble_totals"] = bubble_totals_json(times.bubbles);
}

}  // namespace

Json timing_json(const Trace& trace, const Timing& timing) {
  Json json = {{"schema", "commlens.timing/1"}, {"overlap", Json::array()}};
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
  Json json = {{"schema", "commlens.timing/1"}};
  put_totals(json, tables, timing.times, timing.waits);
  return json;
}

}  // namespace commlens
