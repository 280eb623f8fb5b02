#include "commlens/report/figures/overview_figure.hpp"

#include <fmt/format.h>

#include "commlens/report/coverage_report.hpp"
#include "commlens/report/figures/labels.hpp"
#include "commlens/report/shares.hpp"

namespace commlens {
namespace {

/// "what" and "value", line by line.
class Lines {
 public:
  void add(std::string_view what, std::string_view value) {
    if (!value.empty()) {
      texts(what_).add(what);
      texts(value_).add(value);
    }
  }
  std::vector<FigureColumn> take() { return {std::move(what_), std::move(value_)}; }

 private:
  FigureColumn what_ = text_column("what", "what");
  FigureColumn value_ = text_column("value", "value");
};

std::string exact(Bytes bytes) {
  return fmt::format("{} ({} bytes)", to_text(bytes), with_commas(bytes.value));
}

std::string source_text(const Provenance& provenance) {
  const char* const link = provenance.source == Source::imported ? "from" : "by";
  return provenance.producer.empty()
             ? std::string(name_of(provenance.source))
             : fmt::format("{} {} {}", name_of(provenance.source), link, provenance.producer);
}

void add_time(Lines& lines, const Summary& summary) {
  if (!summary.time) {
    return;
  }
  const TimeStats& time = *summary.time;
  const auto text = [](std::chrono::nanoseconds ns) { return time_text(static_cast<double>(ns.count())); };
  if (!time.p50 || !time.p95 || !time.longest) {
    lines.add("times", k_averages_text);
    return;
  }
  lines.add("time in calls, all ranks", text(time.total));
  lines.add("time of one call",
            fmt::format("P50 {}, P95 {}, longest {}{}", text(*time.p50), text(*time.p95), text(*time.longest),
                        time.exact ? "" : " (quantiles within 1 %)"));
}

}  // namespace

FigureResult overview_figure(const FigureInput& input) {
  const Trace& trace = input.trace();
  const Summary& summary = input.summary;
  Lines lines;
  lines.add("trace", input.subject.name);
  lines.add("source", source_text(trace.provenance));
  lines.add("description", trace.provenance.description);
  lines.add("framework", trace.provenance.framework);
  const std::int64_t ranks = job_ranks(trace);
  lines.add("ranks", ranks == summary.ranks ? with_commas(ranks)
                                            : fmt::format("{} of {} have calls in what is shown",
                                                          with_commas(summary.ranks), with_commas(ranks)));
  if (summary.calls > 0) {
    const std::int64_t unknown = summary.iterations.empty() ? 0 : summary.coverage.without_iteration;
    lines.add("iterations",
              iterations_label(summary.iterations.list()) +
                  (unknown == 0 ? "" : fmt::format("; {} of no known iteration", counted(unknown, "calls"))));
  }
  lines.add("calls, all ranks", with_commas(summary.calls));
  lines.add("message bytes, all ranks", exact(summary.message));
  if (!is_printed_log(trace) && wire_or_none(summary) != k_no_value) {
    lines.add("wire bytes, all ranks", exact(summary.wire));
  }
  const SizeHistogram& sizes = summary.sizes;
  if (sizes.calls > 0) {
    lines.add(fmt::format("messages below {}", to_text(sizes.small_limit)),
              fmt::format(
                  "{} of the calls, {} of the bytes{}", percent(sizes.small_calls, sizes.calls),
                  percent(sizes.small_message.value, sizes.message.value),
                  sizes.has_time_shares()
                      ? fmt::format(", {} of the time", percent(sizes.small_time.count(), sizes.time.count()))
                      : ""));
  }
  add_time(lines, summary);
  if (summary.computing_ranks > 0) {
    lines.add("time computing, all ranks",
              fmt::format("{} of {}", time_text(static_cast<double>(summary.computing.count())),
                          counted(summary.computing_ranks, "ranks")));
  }
  Figure figure;
  figure.caption = "Sums over all ranks and the iterations shown.";
  if (!is_printed_log(trace)) {
    note_unknown_wire(summary, figure);
  } else {
    figure.notes.emplace_back(
        "Sizes are as DeepSpeed's comms logger prints them: rounded, and an all_gather counts its input "
        "shard. The "
        "log has no groups, so there are no wire bytes, and it is of rank 0 alone.");
  }
  figure.columns = lines.take();
  figure.formulas = {"message-bytes", "wire-bytes"};
  return figure;
}

}  // namespace commlens
