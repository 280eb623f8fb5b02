#include "commlens/live/live_metrics.hpp"

#include <algorithm>
#include <string>

#include <gtest/gtest.h>

namespace commlens {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

LiveOp op_of(CommKind kind, std::string name, Axis axis, std::int64_t calls) {
  LiveOp op;
  op.kind = kind;
  op.name = std::move(name);
  op.axis = axis;
  op.group_size = 2;
  op.sums = {calls, Bytes{100 * calls}, Bytes{50 * calls}, milliseconds(calls)};
  for (std::int64_t call = 0; call < calls; ++call) {
    op.durations.add(milliseconds(1));
  }
  return op;
}

LiveRank rank_of(std::int64_t number, LiveRankState state) {
  LiveRank rank;
  rank.rank = Rank{number};
  rank.process = RankProcess{"node" + std::to_string(number), 100 + number, 1, "a.out", "77", {}};
  rank.process_state = ProcessState::sleeping;
  rank.state = state;
  rank.in_calls = seconds(3);
  rank.between_calls = milliseconds(1500);
  rank.last_progress_unix_ns = 1'700'000'000'500'000'000;
  rank.late_score = number == 1 ? 0.9 : 0.1;
  return rank;
}

/// Two ranks, of which rank 1 is missing in a call that rank 0 waits in.
JobView stuck_job() {
  JobView view;
  view.name = "trace";
  view.job_id = "77";
  view.state = LiveState::running;
  view.ranks = {rank_of(0, LiveRankState::stuck), rank_of(1, LiveRankState::computing)};
  view.ops = {op_of(CommKind::all_reduce, "", Axis::dp, 4),
              op_of(CommKind::other, "MPI_Scan", Axis::world, 1)};
  view.steps.iteration = 7;
  view.steps.completed = 7;
  view.steps.last = milliseconds(250);
  view.alerts = {{"hang-1", "hang", "", HangVerdict::missing, {Rank{1}}, 1, seconds(40), 0}};
  view.alerts_fired = 3;
  view.lost = {{"disk full", 5}};
  view.watcher.polls = 12;
  return view;
}

const MetricFamily* family_of(const std::vector<MetricFamily>& families, const std::string& name) {
  const auto found = std::find_if(families.begin(), families.end(),
                                  [&](const MetricFamily& family) { return family.name == name; });
  return found == families.end() ? nullptr : &*found;
}

std::string lines_of(const std::string& name, MetricsLevel level = MetricsLevel::full) {
  const std::vector<MetricFamily> families = live_metrics(stuck_job(), level, "1.2.3");
  const MetricFamily* const family = family_of(families, name);
  if (family == nullptr) {
    return "";
  }
  std::string text = metrics_text({*family}, MetricsFormat::prometheus);
  for (int head = 0; head < 2; ++head) {
    text.erase(0, text.find('\n') + 1);
  }
  return text;
}

TEST(LiveMetrics, CountWhatOpsSend) {
  EXPECT_EQ(lines_of("commlens_calls"),
            "commlens_calls_total{job_id=\"77\",op=\"MPI_Scan\",axis=\"world\",group_size=\"2\"} 1\n"
            "commlens_calls_total{job_id=\"77\",op=\"all_reduce\",axis=\"dp\",group_size=\"2\"} 4\n");
  EXPECT_NE(lines_of("commlens_message_bytes")
                .find("commlens_message_bytes_total{job_id=\"77\",op=\"all_reduce\",axis=\"dp\",group_size="
                      "\"2\"} 400\n"),
            std::string::npos);
  EXPECT_NE(lines_of("commlens_wire_bytes").find("op=\"all_reduce\",axis=\"dp\",group_size=\"2\"} 200\n"),
            std::string::npos);
}

TEST(LiveMetrics, SumsOfHostileDurationsDoNotOverflow) {
  JobView view = stuck_job();
  view.ops = {op_of(CommKind::all_reduce, "", Axis::dp, 1), op_of(CommKind::all_reduce, "", Axis::dp, 1)};
  for (LiveOp& op : view.ops) {  // of two sizes of groups, which a histogram does not tell apart
    op.sums.time = std::chrono::nanoseconds::max();
    op.sums.message = Bytes{INT64_MAX};
  }
  view.ops[1].group_size = 3;
  const std::vector<MetricFamily> families = live_metrics(view, MetricsLevel::full, "1.2.3");
  const std::string text =
      metrics_text({*family_of(families, "commlens_call_duration_seconds")}, MetricsFormat::prometheus);
  const std::string sum =
      R"(commlens_call_duration_seconds_sum{job_id="77",op="all_reduce",axis="dp"} 9223372036.85)";
  EXPECT_NE(text.find(sum), std::string::npos) << text;
}

TEST(LiveMetrics, HaveBucketsOfDurations) {
  const std::string lines = lines_of("commlens_call_duration_seconds");
  const std::string of_op =
      "commlens_call_duration_seconds_bucket{job_id=\"77\",op=\"all_reduce\",axis=\"dp\",le=";
  EXPECT_NE(lines.find(of_op + "\"1e-05\"} 0\n"), std::string::npos) << lines;
  EXPECT_NE(lines.find(of_op + "\"0.00031623\"} 0\n"), std::string::npos) << lines;
  EXPECT_NE(lines.find(of_op + "\"0.0031623\"} 4\n"), std::string::npos)
      << lines;  // the next bound above 1 ms and its class
  EXPECT_NE(lines.find(of_op + "\"100.0\"} 4\n"), std::string::npos) << lines;
  EXPECT_NE(lines.find(of_op + "\"+Inf\"} 4\n"), std::string::npos) << lines;
  EXPECT_EQ(lines_of("commlens_call_duration_seconds", MetricsLevel::lite), "");
}

TEST(LiveMetrics, SayWhatRanksDo) {
  const std::string states = lines_of("commlens_rank_state");
  EXPECT_NE(states.find("{job_id=\"77\",rank=\"0\",node=\"node0\",state=\"stuck\"} 1\n"), std::string::npos);
  EXPECT_NE(states.find("{job_id=\"77\",rank=\"0\",node=\"node0\",state=\"dead\"} 0\n"), std::string::npos);
  EXPECT_EQ(std::count(states.begin(), states.end(), '\n'), 2 * 8);
  EXPECT_EQ(lines_of("commlens_rank_state", MetricsLevel::lite), "");
  EXPECT_NE(lines_of("commlens_ranks", MetricsLevel::lite).find("{job_id=\"77\",state=\"computing\"} 1\n"),
            std::string::npos);
  EXPECT_NE(lines_of("commlens_between_calls_seconds")
                .find("commlens_between_calls_seconds_total{job_id=\"77\",rank=\"1\",node=\"node1\"} 1.5\n"),
            std::string::npos);
  EXPECT_EQ(lines_of("commlens_straggler_score", MetricsLevel::lite),
            "commlens_straggler_score{job_id=\"77\",rank=\"1\",node=\"node1\"} 0.9\n"
            "commlens_straggler_score{job_id=\"77\",rank=\"0\",node=\"node0\"} 0.1\n");
}

TEST(LiveMetrics, NameTheCulpritOfAHang) {
  EXPECT_EQ(lines_of("commlens_culprit", MetricsLevel::lite),
            "commlens_culprit{job_id=\"77\",rank=\"1\",node=\"node1\",verdict=\"missing\",process="
            "\"sleeping\"} 1\n");
  EXPECT_EQ(lines_of("commlens_stuck_seconds"), "commlens_stuck_seconds{job_id=\"77\"} 40\n");
  EXPECT_EQ(lines_of("commlens_stuck_ranks"), "commlens_stuck_ranks{job_id=\"77\",verdict=\"missing\"} 1\n");
  JobView well = stuck_job();
  well.alerts.clear();
  const std::vector<MetricFamily> families = live_metrics(well, MetricsLevel::full, "1");
  EXPECT_EQ(family_of(families, "commlens_culprit"), nullptr);
  EXPECT_EQ(family_of(families, "commlens_stuck_seconds")->samples.at(0).value, 0);
}

TEST(LiveMetrics, SayHowTheJobAndItsPredictionCompare) {
  EXPECT_EQ(lines_of("commlens_prediction_calls"), "");
  JobView view = stuck_job();
  view.alerts.push_back({"volume-1", "volume", "not as predicted"});
  view.prediction.emplace();
  view.prediction->exact = 12;
  view.prediction->missing = 3;
  view.prediction->deviations = {{CommKind::all_reduce, Axis::dp, Bytes{100}, Bytes{150}},
                                 {CommKind::send, Axis::pp, Bytes{0}, Bytes{8}}};  // no ratio
  const std::vector<MetricFamily> families = live_metrics(view, MetricsLevel::lite, "1");
  const auto text = [&](const std::string& name) {
    return metrics_text({*family_of(families, name)}, MetricsFormat::prometheus);
  };
  const std::string calls = text("commlens_prediction_calls");
  EXPECT_NE(calls.find("verdict=\"exact\"} 12\n"), std::string::npos) << calls;
  EXPECT_NE(calls.find("verdict=\"missing\"} 3\n"), std::string::npos) << calls;
  EXPECT_NE(calls.find("verdict=\"extra\"} 0\n"), std::string::npos) << calls;
  const MetricFamily& deviation = *family_of(families, "commlens_prediction_deviation_ratio");
  ASSERT_EQ(deviation.samples.size(), 1U);
  EXPECT_EQ(deviation.samples[0].value, 0.5);
  const std::string firing = text("commlens_alerts_firing");
  EXPECT_NE(firing.find("kind=\"hang\"} 1\n"), std::string::npos) << firing;
  EXPECT_NE(firing.find("kind=\"volume\"} 1\n"), std::string::npos) << firing;
  EXPECT_EQ(family_of(families, "commlens_stuck_ranks")->samples.size(), 1U);  // of the hang alone
}

TEST(LiveMetrics, AreAlwaysOfOneJob) {
  for (const MetricFamily& family : live_metrics(stuck_job(), MetricsLevel::full, "1")) {
    for (const MetricSample& sample : family.samples) {
      EXPECT_EQ(sample.labels.at(0), (std::pair<std::string, std::string>{"job_id", "77"})) << family.name;
    }
  }
  EXPECT_EQ(lines_of("commlens_records_lost"),
            "commlens_records_lost_total{job_id=\"77\",reason=\"disk full\"} 5\n");
  EXPECT_EQ(lines_of("commlens_build"), "commlens_build_info{job_id=\"77\",version=\"1.2.3\"} 1\n");
}

TEST(LiveMetrics, BoundTheirLabels) {
  JobView view = stuck_job();
  for (int name = 0; name < 1000; ++name) {
    view.ops.push_back(op_of(CommKind::other, "f" + std::to_string(name), Axis::world, 1));
  }
  const std::vector<MetricFamily> families = live_metrics(view, MetricsLevel::full, "1");
  const MetricFamily& calls = *family_of(families, "commlens_calls");
  EXPECT_EQ(calls.samples.size(), k_most_label_values);
  double sum = 0;
  for (const MetricSample& sample : calls.samples) {
    sum += sample.value;
  }
  EXPECT_EQ(sum, 1005);
  EXPECT_EQ(family_of(families, "commlens_call_duration_seconds")->samples.size(), k_most_label_values);
  // Of 1,002 rows 255 have labels of their own.
  EXPECT_EQ(family_of(families, "commlens_labels_capped")->samples.at(0).value, 747);
}

}  // namespace
}  // namespace commlens
