#include <nlohmann/json.hpp>

#include "commlens/app/hang_json.hpp"
#include "commlens/app/json_result.hpp"
#include "commlens/app/watch.hpp"
#include "commlens/app/watch_tables.hpp"
#include "commlens/report/table_json.hpp"

namespace commlens {
namespace {

using nlohmann::ordered_json;

constexpr const char* k_watch_schema = "commlens.watch/1";

double seconds(std::chrono::nanoseconds time) { return static_cast<double>(time.count()) / 1e9; }

ordered_json known_iteration(Iteration iteration) {
  return iteration == k_unknown_iteration ? ordered_json(nullptr) : ordered_json(iteration);
}

ordered_json known_seconds(const std::optional<std::chrono::nanoseconds>& time) {
  return time ? ordered_json(seconds(*time)) : ordered_json(nullptr);
}

ordered_json alert_json(const JobView& view, const LiveAlert& alert) {
  ordered_json json = {{"id", alert.id},
                       {"kind", alert.kind},
                       {"sentence", alert_text(view, alert)},
                       {"verdict", name_of(alert.verdict)},
                       {"culprit_ranks", ordered_json::array()},
                       {"waiting_ranks", alert.waiting},
                       {"still_s", seconds(alert.still_for)},
                       {"since_unix_ns", alert.since_unix_ns}};
  for (const Rank rank : alert.culprits) {
    json["culprit_ranks"].push_back(rank.value);
  }
  return json;
}

/// As `compare` has it, the prediction as A.
ordered_json prediction_json(const LivePrediction& prediction) {
  ordered_json rows = ordered_json::array();
  for (const LiveDeviation& deviation : prediction.deviations) {
    rows.push_back({{"op", name_of(deviation.kind)},
                    {"axis", name_of(deviation.axis)},
                    {"message_bytes_a_all_ranks", deviation.predicted.value},
                    {"message_bytes_b_all_ranks", deviation.recorded.value}});
  }
  const bool is_compared = prediction.iterations > 0;
  return {
      {"a", is_compared ? ordered_json(prediction.source) : ordered_json(nullptr)},
      {"error", prediction.error.empty() ? ordered_json(nullptr) : ordered_json(prediction.error)},
      {"iteration", prediction.iteration >= 0 ? ordered_json(prediction.iteration) : ordered_json(nullptr)},
      {"iteration_count", prediction.iterations},
      {"equal_calls_all_ranks", prediction.exact},
      {"resized_calls_all_ranks", prediction.size},
      {"calls_only_a_all_ranks", prediction.missing},
      {"calls_only_b_all_ranks", prediction.extra},
      {"iterations_that_differ_alike", prediction.in_a_row},
      {"deviations", std::move(rows)}};
}

/// As `compare --regression` has it, the earlier recording as A.
ordered_json baseline_json(const LiveBaseline& baseline) {
  ordered_json rows = ordered_json::array();
  for (const LiveSlowdown& row : baseline.rows) {
    rows.push_back({{"op", row.op},
                    {"axis", row.axis.empty() ? ordered_json(nullptr) : ordered_json(row.axis)},
                    {"phase", row.phase.empty() ? ordered_json(nullptr) : ordered_json(row.phase)},
                    {"time_a_ns", row.before.count()},
                    {"time_b_ns", row.now.count()},
                    {"ratio", row.ratio()},
                    {"p_adjusted", row.p_adjusted},
                    {"slower", row.is_slower}});
  }
  return {{"a", baseline.source},
          {"error", baseline.error.empty() ? ordered_json(nullptr) : ordered_json(baseline.error)},
          {"tests", baseline.tests},
          {"iteration_count", baseline.iterations},
          {"rows", std::move(rows)}};
}

ordered_json lost_json(const JobView& view) {
  ordered_json rows = ordered_json::array();
  for (const auto& [reason, calls] : view.lost) {
    rows.push_back({{"reason", reason}, {"calls_all_ranks", calls}});
  }
  return rows;
}

/// Events are lines, so that a reader can take one by one.
std::string in_a_line(const ordered_json& json) {
  return json.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

}  // namespace

std::string watch_json(const JobView& view, const WatchShow& show, bool is_pretty) {
  ordered_json json = {{"schema", k_watch_schema},
                       {"event", "state"},
                       {"trace", view.name},
                       {"job_id", view.job_id},
                       {"job", name_of(view.state)},
                       {"error", view.error.empty() ? ordered_json(nullptr) : ordered_json(view.error)},
                       {"generation", view.generation},
                       {"iteration", known_iteration(view.steps.iteration)},
                       {"step_s", known_seconds(view.steps.last)},
                       {"step_median_s", known_seconds(view.steps.median)},
                       {"calls_all_ranks", view.totals.calls},
                       {"totals",
                        {{"message_bytes_all_ranks", view.totals.message.value},
                         {"wire_bytes_all_ranks", view.totals.wire.value}}},
                       {"window_s", seconds(view.window)},
                       {"announced_pause_s", seconds(view.hang.pause_left)},
                       {"alerts", ordered_json::array()},
                       {"hang", nullptr},
                       {"prediction", nullptr},
                       {"baseline", nullptr},
                       {"rows", rows_json(watched_ops(view))},
                       {"rank_rows", rows_json(watched_ranks(view, show))},
                       {"lost", lost_json(view)},
                       {"watcher",
                        {{"polls", view.watcher.polls},
                         {"records", view.watcher.records},
                         {"unread_records", view.watcher.unread},
                         {"unfollowed_calls", view.watcher.unfollowed_calls},
                         {"poll_s", seconds(view.watcher.took)},
                         {"busy_s", seconds(view.watcher.busy)}}}};
  for (const LiveAlert& alert : view.alerts) {
    json["alerts"].push_back(alert_json(view, alert));
  }
  if (view.prediction) {
    json["prediction"] = prediction_json(*view.prediction);
  }
  if (view.baseline) {
    json["baseline"] = baseline_json(*view.baseline);
  }
  if (view.is_hung()) {
    json["hang"] = hang_json(hang_of(view));
  }
  return is_pretty ? json_result(json) : in_a_line(json);
}

std::string event_json(const JobView& view, const WatchEvent& event) {
  ordered_json json = {{"schema", k_watch_schema},   {"event", name_of(event.kind)},
                       {"trace", view.name},         {"job_id", view.job_id},
                       {"job", name_of(view.state)}, {"at_unix_ns", event.unix_ns}};
  if (event.rank) {
    const LiveRank& rank = view.ranks[*event.rank];
    json["rank"] = rank.rank.value;
    json["host"] = rank.process ? ordered_json(rank.process->host) : ordered_json(nullptr);
    json["pid"] = rank.process ? ordered_json(rank.process->pid) : ordered_json(nullptr);
  }
  if (event.alert) {
    json["alert"] = alert_json(view, *event.alert);
  }
  if (event.kind == WatchEventKind::alert && event.alert->kind == k_alert_hang) {
    json["hang"] = hang_json(hang_of(view));
  }
  return in_a_line(json);
}

}  // namespace commlens
