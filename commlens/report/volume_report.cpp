#include <algorithm>
#include <array>
#include <cctype>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commlens/compare/causes.hpp"
#include "commlens/report/comparison_report.hpp"
#include "commlens/report/csv.hpp"
#include "commlens/report/explain_report.hpp"

namespace commlens {
namespace {

using Json = nlohmann::ordered_json;

/// How a printed log writes its sizes: 1024-based, two decimals.
std::string printed_size(const LoggedRow& row) {
  return row.rounding.value == 0 ? with_commas(row.size.value) + " B"
                                 : fmt::format("{} ±{}", to_text(row.size), to_text(row.rounding));
}

/// What the calls behind a printed size are for, each cause once.
std::vector<Cause> causes_of(const LoggedRow& row) {
  std::vector<Cause> causes;
  for (const std::string_view name : row.causes) {
    causes.push_back(cause_named(name));
  }
  return causes;
}

std::string joined(const std::vector<Cause>& causes, std::string Cause::* member, std::string_view between) {
  std::string text;
  for (const Cause& cause : causes) {
    text += (text.empty() ? "" : std::string(between)) + cause.*member;
  }
  return text;
}

/// "predicted_calls", "a_calls".
std::string calls_key(std::string_view other) {
  std::string key(other);
  std::transform(key.begin(), key.end(), key.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  return key + "_calls";
}

}  // namespace

bool all_equal(const std::vector<VolumeDifference>& rows) {
  return std::all_of(rows.begin(), rows.end(),
                     [](const VolumeDifference& row) { return row.message_a == row.message_b; });
}

std::string volumes_text(const std::vector<VolumeDifference>& rows, const TextStyle& style) {
  const bool same = all_equal(rows);
  const std::string text = in_colour(same ? "equal: message bytes per axis and op of one iteration"
                                          : "different: message bytes per axis and op of one iteration",
                                     same ? Colour::green : Colour::red, style) +
                           ", all ranks together\n\n";
  Table table({{.title = "axis"},
               {.title = "op"},
               {.title = "calls A", .align = Column::Align::right, .drop_first = 1},
               {.title = "calls B", .align = Column::Align::right, .drop_first = 1},
               {.title = "bytes A", .align = Column::Align::right},
               {.title = "bytes B", .align = Column::Align::right},
               {.title = "B / A", .align = Column::Align::right}});
  for (const VolumeDifference& row : rows) {
    const std::string ratio = row.message_a.value == 0
                                  ? "-"
                                  : fmt::format("{:.4f}", static_cast<double>(row.message_b.value) /
                                                              static_cast<double>(row.message_a.value));
    table.add({std::string(name_of(row.axis)), std::string(name_of(row.kind)), with_commas(row.calls_a),
               with_commas(row.calls_b), with_commas(row.message_a.value), with_commas(row.message_b.value),
               ratio});
  }
  return text + table.text_with_hidden(style);
}

Json volumes_json(const std::vector<VolumeDifference>& rows) {
  Json list = Json::array();
  for (const VolumeDifference& row : rows) {
    list.push_back({{"axis", name_of(row.axis)},
                    {"op", name_of(row.kind)},
                    {"calls_a_all_ranks", row.calls_a},
                    {"calls_b_all_ranks", row.calls_b},
                    {"message_bytes_a_all_ranks", row.message_a.value},
                    {"message_bytes_b_all_ranks", row.message_b.value}});
  }
  return {{"schema", "commlens.compare_volumes/1"},
          {"equal", all_equal(rows)},
          {"scope", "one iteration, all ranks"},
          {"rows", list}};
}

std::string volumes_csv(const std::vector<VolumeDifference>& rows, const Explanation* explanation) {
  std::vector<std::string> titles = {"axis",
                                     "op",
                                     "calls_a_all_ranks",
                                     "calls_b_all_ranks",
                                     "message_bytes_a_all_ranks",
                                     "message_bytes_b_all_ranks"};
  if (explanation != nullptr) {
    titles.insert(titles.end(), {"cause", "rule", "source"});
  }
  std::string text = csv_line(titles);
  for (const VolumeDifference& row : rows) {
    std::vector<std::string> cells = {
        std::string(name_of(row.axis)),      std::string(name_of(row.kind)),
        std::to_string(row.calls_a),         std::to_string(row.calls_b),
        std::to_string(row.message_a.value), std::to_string(row.message_b.value)};
    if (explanation != nullptr) {
      cells.emplace_back("total");
      cells.resize(titles.size());
    }
    text += csv_line(cells);
  }
  return explanation == nullptr ? text : text + explanation_csv(*explanation);
}

std::string logged_text(const LoggedComparison& comparison, const TextStyle& style, std::string_view other) {
  const bool same = comparison.equal();
  const bool predicted = other == "predicted";
  const std::string verdict =
      fmt::format("{}: {} of {} logged sizes have {} (rank 0, {} iteration{}{})",
                  same ? "equal" : "different", comparison.exact_rows, comparison.rows.size(),
                  predicted ? "the predicted count" : fmt::format("the count of {}", other),
                  comparison.iterations, comparison.iterations == 1 ? "" : "s",
                  comparison.iterations_fitted ? ", the number that fits best" : "");
  Table table({{.title = "op"},
               {.title = "logged size", .align = Column::Align::right},
               {.title = "logged", .align = Column::Align::right},
               {.title = std::string(other), .align = Column::Align::right},
               {.title = "verdict"},
               {.title = "what for", .least = 16},
               {.title = "rules", .drop_first = 1, .least = 12}});
  for (const LoggedRow& row : comparison.rows) {
    const std::string match = row.logged == row.predicted ? "equal"
                              : row.predicted == 0
                                  ? (predicted ? "not predicted" : fmt::format("not in {}", other))
                              : row.logged == 0 ? "not logged"
                                                : "other count";
    table.add({std::string(name_of(row.kind)), printed_size(row), with_commas(row.logged),
               with_commas(row.predicted), match, joined(causes_of(row), &Cause::title, "; "),
               fmt::format("{}", fmt::join(row.rules, ", "))});
  }
  const std::string left_out =
      comparison.ignored_rows == 0
          ? ""
          : fmt::format("left out: {} size{} of ignored ops\n", comparison.ignored_rows,
                        comparison.ignored_rows == 1 ? "" : "s");
  return in_colour(verdict, same ? Colour::green : Colour::red, style) + "\n" + left_out + "\n" +
         table.text_with_hidden(style);
}

Json logged_json(const LoggedComparison& comparison, std::string_view other) {
  Json rows = Json::array();
  for (const LoggedRow& row : comparison.rows) {
    Json names = Json::array();
    for (const Cause& cause : causes_of(row)) {
      names.push_back(cause.name);
    }
    rows.push_back({{"op", name_of(row.kind)},
                    {"logged_size_bytes", row.size.value},
                    {"rounding_bytes", row.rounding.value},
                    {"logged_calls", row.logged},
                    {calls_key(other), row.predicted},
                    {"rules", row.rules},
                    {"causes", names}});
  }
  return {{"schema", "commlens.compare_logged/1"},
          {"equal", comparison.equal()},
          {"scope", "rank 0, whole run, as DeepSpeed's comms logger counts"},
          {"iterations", comparison.iterations},
          {"iterations_fitted", comparison.iterations_fitted},
          {"exact_rows", comparison.exact_rows},
          {"ignored_rows", comparison.ignored_rows},
          {"rows", rows}};
}

std::string logged_csv(const LoggedComparison& comparison, std::string_view other) {
  std::string text = csv_line(std::array<std::string, 7>{
      "op", "logged_size_bytes", "rounding_bytes", "logged_calls", calls_key(other), "rules", "causes"});
  for (const LoggedRow& row : comparison.rows) {
    text += csv_line(std::array<std::string, 7>{
        std::string(name_of(row.kind)), std::to_string(row.size.value), std::to_string(row.rounding.value),
        std::to_string(row.logged), std::to_string(row.predicted),
        fmt::format("{}", fmt::join(row.rules, " ")), joined(causes_of(row), &Cause::name, " ")});
  }
  return text;
}

}  // namespace commlens
