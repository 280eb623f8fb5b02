#include "commlens/report/figures/measured_figure.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>

#include <fmt/format.h>

#include "commlens/report/vocabulary.hpp"

namespace commlens {
namespace {

using MeasuredNames = std::vector<std::string>;

Cell whole_nanoseconds(double nanoseconds) { return {std::chrono::nanoseconds(std::llround(nanoseconds))}; }

/// "all_reduce world x4", with its type where several were measured.
std::string series_of(const MeasuredCall& call, bool has_several_types) {
  std::string text = fmt::format("{} {}", call.op, call.groups);
  text += call.ranks > 0 ? fmt::format(" x{}", call.ranks) : "";
  text += has_several_types ? " " + call.dtype : "";
  return text + (call.in_place ? " in place" : "");
}

}  // namespace

FigureResult measured_figure(const FigureInput& input) {
  const MeasuredCalls& measured = *input.documents.measured;
  const bool has_several_types =
      std::any_of(measured.calls.begin(), measured.calls.end(),
                  [&](const MeasuredCall& call) { return call.dtype != measured.calls.front().dtype; });
  Table table(
      columns({"call", Column{.key = "message_bytes", .title = "message size"}, "p50_ns", "p50_low_ns",
               "p50_high_ns", Column{.key = "bus_bandwidth_bytes_per_s", .title = "bus bandwidth"},
               "bus_bandwidth_low_bytes_per_s", "bus_bandwidth_high_bytes_per_s", "samples", "op", "axis"}));
  for (const MeasuredCall& call : measured.calls) {
    const WithInterval& time = call.nanoseconds;
    std::vector<Cell> bandwidths(3);
    if (call.bus_bandwidth && time.low > 0) {
      bandwidths = {BytesPerSecond{*call.bus_bandwidth},
                    BytesPerSecond{*call.bus_bandwidth * time.value / time.high},
                    BytesPerSecond{*call.bus_bandwidth * time.value / time.low}};
    }
    table.add(concatenated(std::vector<Cell>{series_of(call, has_several_types), Bytes{call.bytes},
                                             whole_nanoseconds(time.value), whole_nanoseconds(time.low),
                                             whole_nanoseconds(time.high)},
                           bandwidths, std::vector<Cell>{call.samples, call.op, call.groups}));
  }
  Figure figure;
  figure.kind = FigureKind::lines;
  figure.caption = fmt::format(
      "Calls that bench timed ({}): {} ranks over {}, {} buffers. P50 of the last exit minus the first "
      "entry, {}; bus "
      "bandwidth as nccl-tests defines it.",
      printable(measured.name), measured.ranks, printable(measured.transport), printable(measured.cache),
      measured.launches == 1 ? std::string("with its 95 % interval, of one launch")
                             : fmt::format("the median and the range of {} launches", measured.launches));
  if (measured.is_partial) {
    figure.notes.emplace_back("The measurement was stopped before it was complete.");
  }
  figure.columns = figure_columns(table, {"op", "axis"});
  figure.options = {{"x", std::string("message_bytes")},
                    {"series", std::string("call")},
                    {"toggles", MeasuredNames{"p50_ns", "bus_bandwidth_bytes_per_s"}},
                    {"low", MeasuredNames{"p50_low_ns", "bus_bandwidth_low_bytes_per_s"}},
                    {"high", MeasuredNames{"p50_high_ns", "bus_bandwidth_high_bytes_per_s"}},
                    {"log_x", true},
                    {"log_y", true}};
  return figure;
}

}  // namespace commlens
