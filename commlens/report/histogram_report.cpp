#include "commlens/report/histogram_report.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commlens/report/csv.hpp"
#include "commlens/report/shares.hpp"
#include "commlens/report/wrapped.hpp"

namespace commlens {
namespace {

using Json = nlohmann::ordered_json;

Bytes upper_of(const SizeBin& bin) {
  return bin.lower.value > INT64_MAX / 2 ? Bytes{INT64_MAX} : Bytes{2 * bin.lower.value};
}

std::string bin_text(const SizeBin& bin) {
  return bin.lower.value == 0 ? "0 B" : fmt::format("{} to < {}", to_text(bin.lower), to_text(upper_of(bin)));
}

/// Null for calls of which none has a time.
Json time_json(std::int64_t timed_calls, std::chrono::nanoseconds time) {
  return timed_calls > 0 ? Json(time.count()) : Json();
}

}  // namespace

std::string histogram_text(const SizeHistogram& histogram, const TextStyle& style) {
  // Whole bars on a terminal of 80 columns too.
  const std::size_t bar_width = style.width == 0 || style.width >= 90 ? 24 : 16;
  const bool has_times = histogram.has_time_shares();
  std::int64_t most = 0;
  for (const SizeBin& bin : histogram.bins) {
    most = std::max(most, bin.calls);
  }
  Table table({{.title = "message size"},
               {.title = "calls", .align = Column::Align::right},
               {.title = "of calls", .align = Column::Align::right},
               {.title = "of bytes", .align = Column::Align::right},
               {.title = "of time", .align = Column::Align::right},
               {.title = "", .least = 8}});
  for (const SizeBin& bin : histogram.bins) {
    table.add({bin_text(bin), with_commas(bin.calls), percent(bin.calls, histogram.calls),
               percent(bin.message.value, histogram.message.value),
               has_times ? percent(bin.time.count(), histogram.time.count()) : "",
               bar(bin.calls, most, bar_width)});
  }
  if (table.empty()) {
    return "no messages\n";
  }
  const std::string of_time =
      fmt::format(", {} of the time", percent(histogram.small_time.count(), histogram.time.count()));
  const std::string small =
      fmt::format("messages below {}: {} of the calls, {} of the bytes{}\n", to_text(histogram.small_limit),
                  percent(histogram.small_calls, histogram.calls),
                  percent(histogram.small_message.value, histogram.message.value), has_times ? of_time : "");
  return table.text(style) + wrapped(small, style);
}

Json histogram_json(const SizeHistogram& histogram, const std::string& scope) {
  Json bins = Json::array();
  for (const SizeBin& bin : histogram.bins) {
    bins.push_back({{"lower_bytes", bin.lower.value},
                    {"upper_bytes", upper_of(bin).value},
                    {"calls", bin.calls},
                    {"message_bytes", bin.message.value},
                    {"timed_calls", bin.timed_calls},
                    {"time_ns", time_json(bin.timed_calls, bin.time)}});
  }
  return {
      {"scope", scope},
      {"calls", histogram.calls},
      {"message_bytes", histogram.message.value},
      {"small_limit_bytes", histogram.small_limit.value},
      {"small_calls", histogram.small_calls},
      {"small_message_bytes", histogram.small_message.value},
      {"small_share_of_calls", histogram.small_share_by_calls()},
      {"small_share_of_bytes", histogram.small_share_by_bytes()},
      {"timed_calls", histogram.timed_calls},
      {"time_ns", time_json(histogram.timed_calls, histogram.time)},
      {"small_time_ns", time_json(histogram.timed_calls, histogram.small_time)},
      {"small_share_of_time", histogram.has_time_shares() ? Json(histogram.small_share_by_time()) : Json()},
      {"bins", bins}};
}

std::string histogram_csv(const SizeHistogram& histogram) {
  std::string text = csv_line(std::array<std::string, 6>{"lower_bytes", "upper_bytes", "calls",
                                                         "message_bytes", "timed_calls", "time_ns"});
  for (const SizeBin& bin : histogram.bins) {
    text += csv_line(std::array<std::string, 6>{
        std::to_string(bin.lower.value), std::to_string(upper_of(bin).value), std::to_string(bin.calls),
        std::to_string(bin.message.value), std::to_string(bin.timed_calls),
        bin.timed_calls > 0 ? std::to_string(bin.time.count()) : ""});
  }
  return text;
}

}  // namespace commlens
