#include "commlens/report/figures/sizes_figure.hpp"

#include <fmt/format.h>

#include "commlens/report/figures/labels.hpp"
#include "commlens/report/histogram_report.hpp"
#include "commlens/report/shares.hpp"

namespace commlens {
namespace {

std::string small_text(const SizeHistogram& sizes) {
  std::string text = fmt::format("Messages below {} are {} of the calls and {} of the bytes",
                                 to_text(sizes.small_limit), percent(sizes.small_calls, sizes.calls),
                                 percent(sizes.small_message.value, sizes.message.value));
  if (sizes.has_time_shares()) {
    text += fmt::format(", and take {} of the time", percent(sizes.small_time.count(), sizes.time.count()));
  }
  return text + ".";
}

}  // namespace

FigureResult sizes_figure(const FigureInput& input) {
  const SizeHistogram& sizes = input.volumes().sizes;
  if (sizes.bins.empty()) {
    return no_figure("the trace has no calls with a size");
  }
  Figure figure;
  figure.kind = FigureKind::histogram;
  figure.caption = fmt::format(
      "Message bytes of one call, in classes of powers of two, over all ranks and {}; barriers are skipped. "
      "{}",
      counted_iterations(input), small_text(sizes));
  std::vector<ColumnUse> shown = {Column{"lower_bytes", "from (bytes)"}, "upper_bytes", "calls_all_ranks",
                                  "message_bytes_all_ranks"};
  std::vector<std::string> toggles = {"calls_all_ranks", "message_bytes_all_ranks"};
  if (sizes.timed_calls > 0) {
    shown.emplace_back(Column{"time_ns_all_ranks", "time in calls"});
    toggles.emplace_back("time_ns_all_ranks");
  }
  figure.columns = figure_columns(sizes_table(sizes).picked(shown));
  figure.options = {{"lower", std::string("lower_bytes")},
                    {"upper", std::string("upper_bytes")},
                    {"toggles", std::move(toggles)},
                    {"small_limit", sizes.small_limit.value}};
  figure.formulas = {"message-bytes"};
  return figure;
}

}  // namespace commlens
