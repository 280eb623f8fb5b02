// metrics_page FORMAT: what `serve` tells Prometheus of a job with hostile names, as "prometheus" or
// "openmetrics".
#include <cstdio>
#include <string>

#include "commlens/live/live_metrics.hpp"

int main(int count, char** arguments) {
  using namespace commlens;  // NOLINT(google-build-using-namespace): a program, not a header
  JobView view;
  view.name = "a\"job\\with\nlines \x01\xff\xc3\xa9";
  view.state = LiveState::running;
  const std::string names[] = {"plain",        "quote\"",
                               "back\\slash",  "line\nbreak",
                               "}{,=# EOF",    "\x01\x1f\x7f",
                               "\xff\xfe",     std::string("nul\0nul", 7),
                               "\xe2\x82\xac", ""};
  for (const std::string& name : names) {
    LiveOp op;
    op.kind = CommKind::other;
    op.name = name;
    op.group_size = 2;
    op.sums = {3, Bytes{300}, Bytes{150}, std::chrono::milliseconds(3)};
    for (int call = 0; call < 3; ++call) {
      op.durations.add(std::chrono::milliseconds(1));
    }
    view.ops.push_back(op);
    view.lost[name] = 1;
    LiveRank rank;
    rank.rank = Rank{static_cast<std::int64_t>(view.ranks.size())};
    rank.process = RankProcess{name, 1, 1, name, name, {}};
    rank.late_score = 0.5;
    rank.last_progress_unix_ns = 1'700'000'000'000'000'000;
    view.ranks.push_back(rank);
  }
  view.alerts = {{"hang-1", "hang", "", HangVerdict::missing, {Rank{3}}, 1, std::chrono::seconds(40), 0}};
  const bool is_open = count > 1 && std::string(arguments[1]) == "openmetrics";
  const std::string text = metrics_text(live_metrics(view, MetricsLevel::full, "1"),
                                        is_open ? MetricsFormat::openmetrics : MetricsFormat::prometheus);
  std::fwrite(text.data(), 1, text.size(), stdout);
}
