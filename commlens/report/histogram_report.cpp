#include "commlens/report/histogram_report.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commlens/base/wrapped.hpp"
#include "commlens/report/shares.hpp"
#include "commlens/report/table_json.hpp"
#include "commlens/report/vocabulary.hpp"

namespace commlens {
namespace {

using Json = nlohmann::ordered_json;

Bytes upper_of(const SizeBin& bin) {
  return bin.lower.value > INT64_MAX / 2 ? Bytes{INT64_MAX}
                                         : Bytes{std::max<std::int64_t>(2 * bin.lower.value, 1)};
}

std::string bin_text(const SizeBin& bin) {
  return bin.lower.value == 0 ? "0 B" : fmt::format("{} to < {}", to_text(bin.lower), to_text(upper_of(bin)));
}

/// Null if none of the calls has a time.
Json time_json(std::int64_t timed_calls, std::chrono::nanoseconds time) {
  return timed_calls > 0 ? Json(time.count()) : Json();
}

/// A row per class; bars of `bar_width` marks.
Table sizes_table(const SizeHistogram& histogram, std::size_t bar_width) {
  std::int64_t most = 0;
  for (const SizeBin& bin : histogram.bins) {
    most = std::max(most, bin.calls);
  }
  Table table(columns({Column{.key = "lower_bytes", .title = "message size", .align = Column::Align::left},
                       data("upper_bytes"), "calls_all_ranks", data("message_bytes_all_ranks"),
                       data("timed_calls_all_ranks"), data("time_ns_all_ranks"),
                       Column{"share_of_calls", "of calls"}, Column{"share_of_message_bytes", "of bytes"},
                       Column{"share_of_time", "of time"}, Column{.least = 8}}));
  for (const SizeBin& bin : histogram.bins) {
    table.add({Cell(bin.lower).shown(bin_text(bin)), upper_of(bin), bin.calls, bin.message, bin.timed_calls,
               bin.timed_calls > 0 ? Cell(bin.time) : Cell(), share_cell(bin.calls, histogram.calls),
               share_cell(bin.message.value, histogram.message.value),
               histogram.has_time_shares() ? share_cell(bin.time.count(), histogram.time.count()) : Cell(),
               bar(bin.calls, most, bar_width)});
  }
  return table;
}

}  // namespace

Table sizes_table(const SizeHistogram& histogram) { return sizes_table(histogram, 0); }

std::string histogram_text(const SizeHistogram& histogram, const TextStyle& style) {
  // Full-width bars fit a terminal of 80 columns.
  const std::size_t bar_width = style.width == 0 || style.width >= 90 ? 24 : 16;
  const Table table = sizes_table(histogram, bar_width);
  if (table.empty()) {
    return "no messages\n";
  }
  const std::string of_time =
      fmt::format(", {} of the time", percent(histogram.small_time.count(), histogram.time.count()));
  const std::string small =
      fmt::format("messages below {}: {} of the calls, {} of the bytes{}\n", to_text(histogram.small_limit),
                  percent(histogram.small_calls, histogram.calls),
                  percent(histogram.small_message.value, histogram.message.value),
                  histogram.has_time_shares() ? of_time : "");
  return table.text(style) + wrapped(small, style);
}

Json histogram_json(const SizeHistogram& histogram, const std::string& scope) {
  return {
      {"scope", scope},
      {"calls_all_ranks", histogram.calls},
      {"message_bytes_all_ranks", histogram.message.value},
      {"small_limit_bytes", histogram.small_limit.value},
      {"small_calls_all_ranks", histogram.small_calls},
      {"small_message_bytes_all_ranks", histogram.small_message.value},
      {"small_share_of_calls", histogram.small_share_by_calls()},
      {"small_share_of_message_bytes", histogram.small_share_by_bytes()},
      {"timed_calls_all_ranks", histogram.timed_calls},
      {"time_ns_all_ranks", time_json(histogram.timed_calls, histogram.time)},
      {"small_time_ns_all_ranks", time_json(histogram.timed_calls, histogram.small_time)},
      {"small_share_of_time", histogram.has_time_shares() ? Json(histogram.small_share_by_time()) : Json()},
      {"bins", rows_json(sizes_table(histogram))}};
}

std::string histogram_csv(const SizeHistogram& histogram) { return sizes_table(histogram).csv(); }

}  // namespace commlens
