#include "commlens/report/figures/overview_figure.hpp"

#include <fmt/format.h>

#include "commlens/report/coverage_report.hpp"
#include "commlens/report/figures/labels.hpp"
#include "commlens/report/shares.hpp"
#include "commlens/report/vocabulary.hpp"

namespace commlens {
namespace {

/// "what" and "value", line by line.
void add(Table& lines, std::string_view what, std::string_view value) {
  if (!value.empty()) {
    lines.add({what, value});
  }
}

std::string exact(Bytes bytes) {
  return fmt::format("{} ({} bytes)", to_text(bytes), with_commas(bytes.value));
}

void add_time(Table& lines, const Summary& summary) {
  if (!summary.time) {
    return;
  }
  const TimeStats& time = *summary.time;
  const auto text = [](std::chrono::nanoseconds ns) { return time_text(static_cast<double>(ns.count())); };
  if (!time.p50 || !time.p95 || !time.longest) {
    add(lines, "times", k_averages_text);
    return;
  }
  add(lines, "time in calls, all ranks", text(time.total));
  add(lines, "time of one call",
      fmt::format("P50 {}, P95 {}, longest {}{}", text(*time.p50), text(*time.p95), text(*time.longest),
                  time.exact ? "" : " (quantiles within 1 %)"));
}

}  // namespace

FigureResult overview_figure(const FigureInput& input) {
  const Trace& trace = input.trace();
  const Summary& summary = input.summary;
  Table lines(columns({"what", "value"}));
  add(lines, "trace", input.subject.name);
  const std::int64_t ranks = job_ranks(trace);
  add(lines, "ranks",
      ranks == summary.ranks ? with_commas(ranks)
                             : fmt::format("{} of {} have calls in what is shown", with_commas(summary.ranks),
                                           with_commas(ranks)));
  if (summary.calls > 0) {
    const std::int64_t unknown = summary.iterations.empty() ? 0 : summary.coverage.without_iteration;
    add(lines, "iterations",
        iterations_label(summary.iterations.list()) +
            (unknown == 0 ? "" : fmt::format("; {} of no known iteration", counted(unknown, "calls"))));
  }
  add(lines, "calls, all ranks", with_commas(summary.calls));
  add(lines, "message bytes, all ranks", exact(summary.message));
  if (!is_printed_log(trace) && knows_wire(summary)) {
    add(lines, "wire bytes, all ranks", exact(summary.wire));
  }
  const SizeHistogram& sizes = input.volumes().sizes;
  if (sizes.calls > 0) {
    add(lines, fmt::format("messages below {}", to_text(sizes.small_limit)),
        fmt::format(
            "{} of the calls, {} of the bytes{}", percent(sizes.small_calls, sizes.calls),
            percent(sizes.small_message.value, sizes.message.value),
            sizes.has_time_shares()
                ? fmt::format(", {} of the time", percent(sizes.small_time.count(), sizes.time.count()))
                : ""));
  }
  add_time(lines, summary);
  if (summary.computing_ranks > 0) {
    add(lines, "time computing, all ranks",
        fmt::format("{} of {}", time_text(static_cast<double>(summary.computing.count())),
                    counted(summary.computing_ranks, "ranks")));
  }
  Figure figure;
  figure.caption = "Sums over all ranks and the iterations shown, initialisation among them where it is.";
  if (!is_printed_log(trace)) {
    note_unknown_wire(summary, figure);
  } else {
    figure.notes.emplace_back(
        "Sizes are as DeepSpeed's comms logger prints them: rounded, and an all_gather counts its input "
        "shard. The "
        "log has no groups, so there are no wire bytes, and it is of rank 0 alone.");
  }
  figure.columns = figure_columns(lines);
  figure.options = {{"facts", true}};
  figure.formulas = {"message-bytes", "wire-bytes"};
  return figure;
}

}  // namespace commlens
