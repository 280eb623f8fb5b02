#include "commlens/report/figures/sizes_figure.hpp"

#include <fmt/format.h>

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
  const SizeHistogram& sizes = input.summary.sizes;
  if (sizes.bins.empty()) {
    return no_figure("the trace has no calls with a size");
  }
  FigureColumn lower = whole_column("lower_bytes", "from (bytes)", "bytes");
  FigureColumn upper = whole_column("upper_bytes", "to below (bytes)", "bytes");
  FigureColumn calls = whole_column("calls", "calls");
  FigureColumn message = whole_column("message_bytes", "message bytes", "bytes");
  FigureColumn time = whole_column("time_ns", "time in calls", "ns");
  for (const SizeBin& bin : sizes.bins) {
    wholes(lower).push_back(bin.lower.value);
    wholes(upper).push_back(bin.lower.value == 0 ? 1 : bin.lower.value * 2);
    wholes(calls).push_back(bin.calls);
    wholes(message).push_back(bin.message.value);
    wholes(time).push_back(bin.time.count());
  }
  Figure figure;
  figure.kind = FigureKind::histogram;
  figure.caption =
      "Message bytes of one call, in classes of powers of two, over all ranks and the iterations shown; "
      "barriers "
      "are left out. " +
      small_text(sizes);
  figure.columns = {std::move(lower), std::move(upper), std::move(calls), std::move(message)};
  std::vector<std::string> toggles = {"calls", "message_bytes"};
  if (sizes.timed_calls > 0) {
    figure.columns.push_back(std::move(time));
    toggles.emplace_back("time_ns");
  }
  figure.options = {{"lower", std::string("lower_bytes")},
                    {"upper", std::string("upper_bytes")},
                    {"toggles", std::move(toggles)},
                    {"small_limit", sizes.small_limit.value}};
  figure.formulas = {"message-bytes"};
  return figure;
}

}  // namespace commlens
