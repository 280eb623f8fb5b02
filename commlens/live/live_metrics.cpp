#include "commlens/live/live_metrics.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "commlens/base/sums.hpp"

namespace commlens {
namespace {

double seconds(std::chrono::nanoseconds time) { return std::chrono::duration<double>(time).count(); }

/// Upper bounds of the buckets of durations: 10 µs to 100 s, two to a decade.
std::vector<double> duration_bounds() {
  constexpr int buckets = 15;
  std::vector<double> bounds;
  for (int place = 0; place < buckets; ++place) {
    // Rounded to the digits that are shown: 10^-4.5 is 3.1623e-05.
    const double bound = std::pow(10.0, -5 + place / 2.0);
    const double unit = std::pow(10.0, std::floor(std::log10(bound)) - 4);
    bounds.push_back(std::stod(fmt::format("{:.5g}", std::round(bound / unit) * unit)));
  }
  return bounds;
}

/// Families in the order in which they are first asked for, each sample with the label job_id.
class Families {
 public:
  explicit Families(const std::string& job_id) : job_id_(job_id) {}

  MetricFamily& family(const char* name, MetricType type, const char* unit, const char* help) {
    for (MetricFamily& known : families_) {
      if (known.name == name) {
        return known;
      }
    }
    return families_.emplace_back(MetricFamily{name, help, type, unit, {}, {}});
  }

  void add(const char* name, MetricType type, const char* unit, const char* help, MetricLabels labels,
           double value) {
    family(name, type, unit, help).samples.push_back({with_job(std::move(labels)), value, {}, 0});
  }
  void counter(const char* name, const char* help, MetricLabels labels, double value, const char* unit = "") {
    add(name, MetricType::counter, unit, help, std::move(labels), value);
  }
  void gauge(const char* name, const char* help, MetricLabels labels, double value, const char* unit = "") {
    add(name, MetricType::gauge, unit, help, std::move(labels), value);
  }

  MetricLabels with_job(MetricLabels labels) const {
    labels.insert(labels.begin(), {"job_id", job_id_});
    return labels;
  }

  std::vector<MetricFamily> take() { return std::move(families_); }

 private:
  std::string job_id_;
  std::vector<MetricFamily> families_;
};

using OpKey = std::tuple<std::string, std::string, std::int64_t>;  // op, axis, group size

struct OpValues {
  LiveSums sums;
  std::int64_t first_calls = 0;
  std::chrono::nanoseconds first_time{};
  bool knows_wire = true;
  LiveSums recent;
  std::optional<double> bus_bandwidth_bytes_per_s;
};

std::string op_of(const LiveOp& op) {
  return op.kind == CommKind::other && !op.name.empty() ? op.name : std::string(name_of(op.kind));
}

void add_to(LiveSums& sums, const LiveSums& more) {
  sums.calls = saturating_sum(sums.calls, more.calls);
  sums.message = saturating_sum(sums.message, more.message);
  sums.wire = saturating_sum(sums.wire, more.wire);
  sums.time = std::chrono::nanoseconds(saturating_sum(sums.time.count(), more.time.count()));
}

/// How many rows share the label `other`: those of a histogram, which has fewer labels, are among them.
std::int64_t add_ops(Families& families, const JobView& view) {
  std::int64_t capped = 0;
  std::map<OpKey, OpValues> rows;
  for (const LiveOp& op : view.ops) {
    OpKey key{op_of(op), std::string(name_of(op.axis)), op.group_size};
    if (rows.find(key) == rows.end() && rows.size() >= k_most_label_values - 1) {
      key = {"other", "other", 0};
      ++capped;
    }
    OpValues& row = rows[key];
    add_to(row.sums, op.sums);
    row.first_calls = saturating_sum(row.first_calls, op.first_calls);
    row.first_time = std::chrono::nanoseconds(saturating_sum(row.first_time.count(), op.first_time.count()));
    add_to(row.recent, op.recent);
    row.knows_wire = row.knows_wire && op.knows_wire;
    row.bus_bandwidth_bytes_per_s = op.bus_bandwidth_bytes_per_s;
  }
  const auto labels_of = [](const OpKey& key) {
    return MetricLabels{{"op", std::get<0>(key)},
                        {"axis", std::get<1>(key)},
                        {"group_size", std::to_string(std::get<2>(key))}};
  };
  for (const auto& [key, row] : rows) {
    families.counter("commlens_calls", "Calls completed, of all ranks.", labels_of(key),
                     static_cast<double>(row.sums.calls));
  }
  for (const auto& [key, row] : rows) {
    families.counter("commlens_message_bytes", "Message bytes of completed calls, of all ranks.",
                     labels_of(key), static_cast<double>(row.sums.message.value), "bytes");
  }
  for (const auto& [key, row] : rows) {
    if (row.knows_wire) {
      families.counter("commlens_wire_bytes", "Bytes that all ranks together send, by optimal algorithms.",
                       labels_of(key), static_cast<double>(row.sums.wire.value), "bytes");
    }
  }
  for (const auto& [key, row] : rows) {
    families.counter("commlens_call_seconds", "Time in completed calls, of all ranks.", labels_of(key),
                     seconds(row.sums.time), "seconds");
  }
  for (const auto& [key, row] : rows) {
    families.counter("commlens_first_calls",
                     "Completed calls that were the first of a rank on a communicator.", labels_of(key),
                     static_cast<double>(row.first_calls));
  }
  for (const auto& [key, row] : rows) {
    families.counter("commlens_first_call_seconds", "Time in first calls of ranks on communicators.",
                     labels_of(key), seconds(row.first_time), "seconds");
  }
  for (const auto& [key, row] : rows) {
    if (row.bus_bandwidth_bytes_per_s && std::get<0>(key) != "other") {
      families.gauge("commlens_bus_bandwidth_bytes_per_second",
                     "Bus bandwidth of the calls of the last seconds, by nccl-tests' definition.",
                     labels_of(key), *row.bus_bandwidth_bytes_per_s);
    }
  }
  return capped;
}

void add_durations(Families& families, const JobView& view) {
  const std::vector<double> bounds = duration_bounds();
  std::map<std::pair<std::string, std::string>, std::pair<DurationHistogram, std::chrono::nanoseconds>> rows;
  for (const LiveOp& op : view.ops) {
    std::pair<std::string, std::string> key{op_of(op), std::string(name_of(op.axis))};
    if (rows.find(key) == rows.end() && rows.size() >= k_most_label_values - 1) {
      key = {"other", "other"};
    }
    auto& [durations, time] = rows[key];
    durations.merge(op.durations);
    time = std::chrono::nanoseconds(saturating_sum(time.count(), op.sums.time.count()));
  }
  MetricFamily& family = families.family(
      "commlens_call_duration_seconds", MetricType::histogram, "seconds",
      "How long completed calls took, to a class of 9 %: those of a class are below a bound when "
      "all of it is.");
  family.bounds = bounds;
  for (const auto& [key, row] : rows) {
    MetricSample sample{
        families.with_job({{"op", key.first}, {"axis", key.second}}), seconds(row.second), {}, 0};
    for (const double bound : bounds) {
      const std::chrono::nanoseconds limit(std::llround(bound * 1e9));
      sample.counts.push_back(static_cast<std::int64_t>(row.first.not_above(limit)));
    }
    sample.count = static_cast<std::int64_t>(row.first.total());
    family.samples.push_back(std::move(sample));
  }
}

constexpr std::array k_rank_states{LiveRankState::absent,  LiveRankState::computing, LiveRankState::in_call,
                                   LiveRankState::waiting, LiveRankState::stuck,     LiveRankState::finished,
                                   LiveRankState::dead,    LiveRankState::unknown};

MetricLabels rank_labels(const LiveRank& rank) {
  return {{"rank", std::to_string(rank.rank.value)}, {"node", rank.process ? rank.process->host : ""}};
}

void add_ranks(Families& families, const JobView& view) {
  for (const LiveRankState state : k_rank_states) {
    const auto ranks = std::count_if(view.ranks.begin(), view.ranks.end(),
                                     [&](const LiveRank& rank) { return rank.state == state; });
    families.gauge("commlens_ranks", "Ranks by what they do.", {{"state", std::string(name_of(state))}},
                   static_cast<double>(ranks));
  }
}

void add_each_rank(Families& families, const JobView& view) {
  for (const LiveRank& rank : view.ranks) {
    for (const LiveRankState state : k_rank_states) {
      MetricLabels labels = rank_labels(rank);
      labels.emplace_back("state", name_of(state));
      families.gauge("commlens_rank_state", "What a rank does: 1 for the state it is in.", std::move(labels),
                     rank.state == state ? 1 : 0);
    }
  }
  for (const LiveRank& rank : view.ranks) {
    families.counter("commlens_in_call_seconds", "Time of a rank in completed calls.", rank_labels(rank),
                     seconds(rank.in_calls), "seconds");
  }
  for (const LiveRank& rank : view.ranks) {
    families.counter("commlens_between_calls_seconds", "Time of a rank between calls: its own work.",
                     rank_labels(rank), seconds(rank.between_calls), "seconds");
  }
  for (const LiveRank& rank : view.ranks) {
    if (rank.last_progress_unix_ns) {
      families.gauge("commlens_last_progress_timestamp_seconds",
                     "When a rank was last seen to enter or leave a call, by this machine's clock.",
                     rank_labels(rank), static_cast<double>(*rank.last_progress_unix_ns) * 1e-9, "seconds");
    }
  }
}

void add_latest_ranks(Families& families, const JobView& view) {
  std::vector<const LiveRank*> late;
  for (const LiveRank& rank : view.ranks) {
    if (rank.late_score) {
      late.push_back(&rank);
    }
  }
  std::stable_sort(late.begin(), late.end(),
                   [](const LiveRank* a, const LiveRank* b) { return *a->late_score > *b->late_score; });
  late.resize(std::min(late.size(), k_most_late_ranks));
  for (const LiveRank* const rank : late) {
    families.gauge(
        "commlens_straggler_score",
        "Share of the latest blocks of calls in which a rank was slow itself, not waiting: 0 to 1.",
        rank_labels(*rank), *rank->late_score);
  }
}

void add_alerts(Families& families, const JobView& view) {
  std::chrono::nanoseconds longest{};
  for (const LiveAlert& alert : view.alerts) {
    if (alert.kind != k_alert_hang) {
      continue;
    }
    longest = std::max(longest, alert.still_for);
    families.gauge("commlens_stuck_ranks", "Ranks that wait in a job that was found hung.",
                   {{"verdict", std::string(name_of(alert.verdict))}}, static_cast<double>(alert.waiting));
  }
  families.gauge("commlens_stuck_seconds", "For how long a hung job has not moved; 0 while it moves.", {},
                 seconds(longest), "seconds");
  families.counter("commlens_alerts", "Alerts since this watcher began.", {},
                   static_cast<double>(view.alerts_fired));
  for (const std::string_view kind : k_alert_kinds) {
    const auto firing = std::count_if(view.alerts.begin(), view.alerts.end(),
                                      [&](const LiveAlert& alert) { return alert.kind == kind; });
    families.gauge("commlens_alerts_firing", "Alerts that hold now, by kind.", {{"kind", std::string(kind)}},
                   static_cast<double>(firing));
  }
  std::size_t named = 0;
  for (const LiveAlert& alert : view.alerts) {
    for (const Rank culprit : alert.kind == k_alert_hang ? alert.culprits : std::vector<Rank>()) {
      const auto rank = std::find_if(view.ranks.begin(), view.ranks.end(),
                                     [&](const LiveRank& each) { return each.rank == culprit; });
      if (named++ < k_most_culprits) {
        MetricLabels labels{{"rank", std::to_string(culprit.value)},
                            {"node", rank != view.ranks.end() && rank->process ? rank->process->host : ""},
                            {"verdict", std::string(name_of(alert.verdict))},
                            {"process", std::string(rank == view.ranks.end() ? name_of(ProcessState::unknown)
                                                    : rank->state == LiveRankState::finished
                                                        ? name_of(rank->state)
                                                        : name_of(rank->process_state))}};
        families.gauge("commlens_culprit", "A rank that a hung job waits for; absent while all is well.",
                       std::move(labels), 1);
      }
    }
  }
}

void add_prediction(Families& families, const JobView& view) {
  if (!view.prediction) {
    return;
  }
  const LivePrediction& prediction = *view.prediction;
  for (const auto& [verdict, calls] :
       {std::pair("exact", prediction.exact), std::pair("size", prediction.size),
        std::pair("missing", prediction.missing), std::pair("extra", prediction.extra)}) {
    families.counter("commlens_prediction_calls", "Calls of compared iterations, by how they match.",
                     {{"verdict", verdict}}, static_cast<double>(calls));
  }
  for (const LiveDeviation& deviation : prediction.deviations) {
    if (deviation.predicted.value == 0) {
      continue;  // nothing to be a ratio of
    }
    const auto predicted = static_cast<double>(deviation.predicted.value);
    families.gauge(
        "commlens_prediction_deviation_ratio",
        "Recorded less predicted over predicted message bytes, of the last compared iteration.",
        {{"op", std::string(name_of(deviation.kind))}, {"axis", std::string(name_of(deviation.axis))}},
        static_cast<double>(deviation.recorded.value) / predicted - 1);
  }
}

void add_baseline(Families& families, const JobView& view) {
  if (!view.baseline) {
    return;
  }
  for (const LiveSlowdown& row : view.baseline->rows) {
    families.gauge("commlens_time_ratio",
                   "Time of calls (op step: of iterations) over that in the earlier recording, medians over "
                   "iterations.",
                   {{"op", row.op}, {"axis", row.axis}, {"phase", row.phase}}, row.ratio());
  }
}

void add_steps(Families& families, const JobView& view) {
  if (view.steps.iteration < 0) {  // the program marks none, or has not begun the first
    return;
  }
  families.counter("commlens_iterations",
                   "Iterations completed by the rank that leads, by the program's marks.", {},
                   static_cast<double>(view.steps.completed));
  if (view.steps.last) {
    families.gauge("commlens_step_seconds", "Length of the last whole iteration.", {},
                   seconds(*view.steps.last), "seconds");
  }
}

void add_watcher(Families& families, const JobView& view, std::string_view version) {
  for (const auto& [reason, calls] : view.lost) {
    families.counter("commlens_records_lost", "Calls that are not known, by reason.", {{"reason", reason}},
                     static_cast<double>(calls));
  }
  const bool is_up = view.state == LiveState::running;
  if (view.nodes) {
    const char* const help = "Nodes of the job whose states are followed.";
    const auto add = [&](const char* state, std::int64_t count) {
      families.gauge("commlens_nodes", help, {{"state", state}}, static_cast<double>(count));
    };
    add("told", view.nodes->told);
    add("silent", view.nodes->silent);
    add("unreachable", view.nodes->unreachable);
  }
  families.gauge("commlens_job_running", "1 while the job runs.", {}, is_up ? 1 : 0);
  families.counter("commlens_follow_polls", "Polls of the job's files.", {},
                   static_cast<double>(view.watcher.polls));
  families.counter("commlens_follow_records", "Records read.", {}, static_cast<double>(view.watcher.records));
  families.counter("commlens_follow_busy_seconds", "Time spent on polls.", {}, seconds(view.watcher.busy),
                   "seconds");
  families.gauge("commlens_follow_unread_records", "Records written and not readable yet.", {},
                 static_cast<double>(view.watcher.unread));
  families.add("commlens_build", MetricType::info, "", "The release that serves this page.",
               {{"version", std::string(version)}}, 1);
}

}  // namespace

std::vector<MetricFamily> live_metrics(const JobView& view, MetricsLevel level, std::string_view version) {
  Families families(view.job_id.empty() ? view.name : view.job_id);
  const std::int64_t capped = add_ops(families, view);
  if (level == MetricsLevel::full) {
    add_durations(families, view);
  }
  add_ranks(families, view);
  if (level == MetricsLevel::full) {
    add_each_rank(families, view);
  }
  add_latest_ranks(families, view);
  add_alerts(families, view);
  add_prediction(families, view);
  add_baseline(families, view);
  add_steps(families, view);
  add_watcher(families, view, version);
  families.gauge("commlens_labels_capped", "Rows that share the label other, since there are too many.", {},
                 static_cast<double>(capped));
  return families.take();
}

}  // namespace commlens
