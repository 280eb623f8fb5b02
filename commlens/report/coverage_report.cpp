#include "commlens/report/coverage_report.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commlens/base/wrapped.hpp"
#include "commlens/report/shares.hpp"

namespace commlens {
namespace {

using Json = nlohmann::ordered_json;

/// A reason for `count` records: its first countable word in the singular or the plural.
std::string in_number(const std::string& reason, std::int64_t count) {
  constexpr std::array<std::string_view, 15> counted = {"call", "record",  "rank",  "time",  "node",
                                                        "line", "event",   "row",   "list",  "group",
                                                        "size", "receive", "start", "table", "message"};
  for (std::size_t begin = 0; begin < reason.size();) {
    const std::size_t end = std::min(reason.find_first_of(" ,", begin), reason.size());
    const bool is_plural = end > begin && reason[end - 1] == 's';
    const std::string_view word = std::string_view(reason).substr(begin, end - begin - (is_plural ? 1 : 0));
    if (std::find(counted.begin(), counted.end(), word) != counted.end()) {
      return reason.substr(0, begin) + std::string(word) + (count == 1 ? "" : "s") + reason.substr(end);
    }
    begin = end + 1;
  }
  return reason;
}

std::string calls_text(std::int64_t calls) {
  return fmt::format("{} call{}", with_commas(calls), calls == 1 ? "" : "s");
}

std::string unclassified_text(const Trace& trace, const Coverage& coverage) {
  constexpr std::size_t most = 5;  // named one by one
  std::string text;
  std::int64_t more = 0;
  for (std::size_t at = 0; at < coverage.unclassified.size(); ++at) {
    const UnclassifiedCalls& calls = coverage.unclassified[at];
    if (at >= most) {
      more += calls.calls;
      continue;
    }
    const std::string& name = trace.names.text(calls.name);
    text += fmt::format("{}{} of {}", at == 0 ? "" : ", ", calls_text(calls.calls),
                        name.empty() ? "an unknown name" : shown_foreign(name, k_widest_name));
  }
  return more == 0 ? text
                   : fmt::format("{}, {} of {} other names", text, calls_text(more),
                                 coverage.unclassified.size() - most);
}

}  // namespace

std::string reasons_text(const std::map<std::string, std::int64_t>& reasons) {
  std::string text;
  for (const auto& [reason, count] : reasons) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", with_commas(count),
                        shown_foreign(in_number(reason, count)));
  }
  return text;
}

std::string coverage_text(const Trace& trace, const Summary& summary, const TextStyle& style) {
  const Coverage& coverage = summary.coverage;
  const std::string skipped = reasons_text(coverage.skipped);
  std::string text =
      skipped.empty() ? "covered: every record\n" : fmt::format("covered: all but {}\n", skipped);
  if (!coverage.assumed.empty()) {
    text += fmt::format("assumed: {}\n", reasons_text(coverage.assumed));
  }
  if (!coverage.unclassified.empty()) {
    text += fmt::format("not classified: {}\n", unclassified_text(trace, coverage));
  }
  if (coverage.without_bytes > 0) {
    text += fmt::format("without bytes: {} (barriers not counted)\n", calls_text(coverage.without_bytes));
  }
  if (summary.calls > 0 && coverage.without_times == summary.calls) {
    text += "times: none\n";
  } else if (coverage.without_times > 0) {
    text += fmt::format("times: all but {} ({})\n", calls_text(coverage.without_times),
                        percent(coverage.without_times, summary.calls));
  }
  if (coverage.averaged_times) {
    text += fmt::format("times: {}, so times of single calls and overlap are not known\n", k_averages_text);
  }
  return wrapped(text, style);
}

Json coverage_json(const Trace& trace, const Coverage& coverage) {
  Json unclassified = Json::array();
  for (const UnclassifiedCalls& calls : coverage.unclassified) {
    unclassified.push_back({{"name", trace.names.text(calls.name)}, {"calls_all_ranks", calls.calls}});
  }
  return {{"unclassified", std::move(unclassified)},
          {"calls_without_bytes_all_ranks", coverage.without_bytes},
          {"calls_without_times_all_ranks", coverage.without_times},
          {"calls_without_iteration_all_ranks", coverage.without_iteration},
          {"unfinished_calls_whole_trace", coverage.unfinished},
          {"dropped_calls_whole_trace", coverage.dropped},
          {"skipped_records_whole_trace", coverage.skipped},
          {"assumed_whole_trace", coverage.assumed},
          {"averaged_times", coverage.averaged_times}};
}

}  // namespace commlens
