#include "commlens/report/histogram_report.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commlens/report/csv.hpp"
#include "commlens/report/shares.hpp"

namespace commlens {
namespace {

using Json = nlohmann::ordered_json;

Bytes upper_of(const SizeBin& bin) {
  return bin.lower.value > INT64_MAX / 2 ? Bytes{INT64_MAX} : Bytes{2 * bin.lower.value};
}

std::string bin_text(const SizeBin& bin) {
  return bin.lower.value == 0 ? "0 B" : fmt::format("{} to < {}", to_text(bin.lower), to_text(upper_of(bin)));
}

}  // namespace

std::string histogram_text(const SizeHistogram& histogram, const TextStyle& style) {
  constexpr std::size_t bar_width = 24;
  std::int64_t most = 0;
  for (const SizeBin& bin : histogram.bins) {
    most = std::max(most, bin.calls);
  }
  Table table({{.title = "message size"},
               {.title = "calls", .align = Column::Align::right},
               {.title = "of calls", .align = Column::Align::right},
               {.title = "of bytes", .align = Column::Align::right},
               {.title = "", .least = 8}});
  for (const SizeBin& bin : histogram.bins) {
    table.add({bin_text(bin), with_commas(bin.calls), percent(bin.calls, histogram.calls),
               percent(bin.message.value, histogram.message.value), bar(bin.calls, most, bar_width)});
  }
  return table.text(style) + fmt::format("messages below {}: {} of the calls, {} of the bytes\n",
                                         to_text(histogram.small_limit),
                                         percent(histogram.small_calls, histogram.calls),
                                         percent(histogram.small_message.value, histogram.message.value));
}

Json histogram_json(const SizeHistogram& histogram, const std::string& scope) {
  Json bins = Json::array();
  for (const SizeBin& bin : histogram.bins) {
    bins.push_back({{"lower_bytes", bin.lower.value},
                    {"upper_bytes", upper_of(bin).value},
                    {"calls", bin.calls},
                    {"message_bytes", bin.message.value}});
  }
  return {{"scope", scope},
          {"calls", histogram.calls},
          {"message_bytes", histogram.message.value},
          {"small_limit_bytes", histogram.small_limit.value},
          {"small_calls", histogram.small_calls},
          {"small_message_bytes", histogram.small_message.value},
          {"small_share_of_calls", histogram.small_share_by_calls()},
          {"small_share_of_bytes", histogram.small_share_by_bytes()},
          {"bins", bins}};
}

std::string histogram_csv(const SizeHistogram& histogram) {
  std::string text =
      csv_line(std::array<std::string, 4>{"lower_bytes", "upper_bytes", "calls", "message_bytes"});
  for (const SizeBin& bin : histogram.bins) {
    text += csv_line(
        std::array<std::string, 4>{std::to_string(bin.lower.value), std::to_string(upper_of(bin).value),
                                   std::to_string(bin.calls), std::to_string(bin.message.value)});
  }
  return text;
}

}  // namespace commlens
