// docs/serving.md lists every metric, and nothing else.
#include <cstdlib>
#include <regex>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "commlens/base/file.hpp"
#include "commlens/live/live_metrics.hpp"

namespace commlens {
namespace {

std::set<std::string> documented() {
  const std::string text =
      read_text_file(std::string(std::getenv("COMMLENS_SOURCE_DIR")) + "/docs/serving.md", 1 << 20).value();
  std::set<std::string> names;
  const std::regex row("\\n\\|( `commlens_[^|]*)\\|");
  const std::regex name("`(commlens_\\w+)`");
  for (std::sregex_iterator found(text.begin(), text.end(), row), end; found != end; ++found) {
    const std::string cell = (*found)[1];
    for (std::sregex_iterator each(cell.begin(), cell.end(), name); each != end; ++each) {
      names.insert((*each)[1]);
    }
  }
  return names;
}

/// A view that has everything there is a metric for.
JobView full_view() {
  JobView view;
  view.name = "t";
  LiveOp op;
  op.kind = CommKind::all_reduce;
  op.sums.calls = 1;
  op.bus_bandwidth_bytes_per_s = 1e9;
  view.ops = {op};
  LiveRank rank;
  rank.late_score = 1;
  rank.last_progress_unix_ns = 1;
  view.ranks = {rank};
  view.steps.iteration = 1;
  view.steps.last = std::chrono::seconds(1);
  view.alerts = {{"hang-1", "hang", "", HangVerdict::missing, {rank.rank}, 1, std::chrono::seconds(40), 0}};
  view.prediction.emplace().deviations = {{CommKind::all_reduce, Axis::dp, Bytes{100}, Bytes{150}}};
  LiveSlowdown& row = view.baseline.emplace().rows.emplace_back();
  row.before = std::chrono::microseconds(1);
  row.now = std::chrono::microseconds(2);
  view.lost = {{"late", 1}};
  view.nodes = LiveNodes{.told = 1};
  return view;
}

TEST(MetricsDocs, ListEveryMetric) {
  std::set<std::string> made;
  for (const MetricFamily& family : live_metrics(full_view(), MetricsLevel::full, "1")) {
    const std::string suffix = family.type == MetricType::counter ? "_total"
                               : family.type == MetricType::info  ? "_info"
                                                                  : "";
    made.insert(family.name + suffix);
  }
  EXPECT_EQ(made, documented());
}

}  // namespace
}  // namespace commlens
