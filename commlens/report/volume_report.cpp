#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commlens/compare/causes.hpp"
#include "commlens/report/comparison_report.hpp"
#include "commlens/report/explain_report.hpp"
#include "commlens/report/shares.hpp"
#include "commlens/report/table_json.hpp"
#include "commlens/report/vocabulary.hpp"

namespace commlens {
namespace {

using Json = nlohmann::ordered_json;

/// How a printed log writes its sizes: 1024-based, two decimals.
std::string printed_size(const LoggedRow& row) {
  return row.rounding.value == 0 ? with_commas(row.size.value) + " B"
                                 : fmt::format("{} ±{}", to_text(row.size), to_text(row.rounding));
}

/// The purposes of the calls of a printed size, each cause once.
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

/// Totals and, with an explanation, the contribution of each cause.
Table volumes_table(const std::vector<VolumeDifference>& rows, const Explanation* explanation) {
  Table table(columns({"axis", "op", Column{.key = "calls_a_all_ranks", .drop_first = 1},
                       Column{.key = "calls_b_all_ranks", .drop_first = 1}, "message_bytes_a_all_ranks",
                       "message_bytes_b_all_ranks", "cause", "rule", "source", "calls_only_a_all_ranks",
                       "calls_only_b_all_ranks", "message_bytes_only_a_all_ranks",
                       "message_bytes_only_b_all_ranks", "ratio"}));
  const auto exact = [](Bytes bytes) { return Cell(bytes).shown(with_commas(bytes.value)); };
  for (const VolumeDifference& row : rows) {
    const bool is_none = row.message_a.value == 0;
    const double ratio =
        is_none ? 0 : static_cast<double>(row.message_b.value) / static_cast<double>(row.message_a.value);
    table.add({name_of(row.axis),
               name_of(row.kind),
               row.calls_a,
               row.calls_b,
               exact(row.message_a),
               exact(row.message_b),
               "total",
               {},
               {},
               {},
               {},
               {},
               {},
               is_none ? or_dash({}) : Cell(ratio).shown(fmt::format("{:.4f}", ratio))});
  }
  if (explanation != nullptr) {
    add_explanation(*explanation, table);
    return table;
  }
  return table.remove({"cause", "rule", "source", "calls_only_a_all_ranks", "calls_only_b_all_ranks",
                       "message_bytes_only_a_all_ranks", "message_bytes_only_b_all_ranks"});
}

std::string match_text(const LoggedRow& row, std::string_view other) {
  return row.logged == row.predicted ? "equal"
         : row.predicted == 0 ? (other == "predicted" ? "not predicted" : fmt::format("not in {}", other))
         : row.logged == 0    ? "not logged"
                              : "other count";
}

Table logged_table(const LoggedComparison& comparison, std::string_view other) {
  Table table(columns({"op", Column{.key = "logged_size_bytes", .title = "logged size"},
                       data("rounding_bytes"), Column{.key = "logged_calls_rank_0", .title = "logged"},
                       Column{.key = "expected_calls_rank_0", .title = std::string(other)}, "verdict",
                       Column{.key = "causes", .title = "what for", .least = 16},
                       Column{.key = "rules", .drop_first = 1, .least = 12}}));
  for (const LoggedRow& row : comparison.rows) {
    const std::vector<Cause> causes = causes_of(row);
    std::vector<std::string> names;
    for (const Cause& cause : causes) {
      names.push_back(cause.name);
    }
    table.add({name_of(row.kind), Cell(row.size).shown(printed_size(row)), row.rounding, row.logged,
               row.predicted, match_text(row, other),
               Cell(std::move(names)).shown(joined(causes, &Cause::title, "; ")),
               std::vector<std::string>(row.rules.begin(), row.rules.end())});
  }
  return table;
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
  return text + volumes_table(rows, nullptr).text_with_hidden(style);
}

Json volumes_json(const std::vector<VolumeDifference>& rows) {
  return {{"schema", "commlens.compare_volumes/2"},
          {"equal", all_equal(rows)},
          {"scope", "one iteration, all ranks"},
          {"rows", rows_json(volumes_table(rows, nullptr))}};
}

std::string volumes_csv(const std::vector<VolumeDifference>& rows, const Explanation* explanation) {
  return volumes_table(rows, explanation).csv();
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
  const std::string skipped =
      comparison.ignored_rows == 0
          ? ""
          : fmt::format("skipped: {} size{} of ignored ops\n", comparison.ignored_rows,
                        comparison.ignored_rows == 1 ? "" : "s");
  return in_colour(verdict, same ? Colour::green : Colour::red, style) + "\n" + skipped + "\n" +
         logged_table(comparison, other).text_with_hidden(style);
}

Json logged_json(const LoggedComparison& comparison, std::string_view other) {
  return {{"schema", "commlens.compare_logged/2"},
          {"equal", comparison.equal()},
          {"scope", "rank 0, whole run, as DeepSpeed's comms logger counts"},
          {"expected_from", other},
          {"iteration_count", comparison.iterations},
          {"iteration_count_fitted", comparison.iterations_fitted},
          {"exact_rows", comparison.exact_rows},
          {"ignored_rows", comparison.ignored_rows},
          {"rows", rows_json(logged_table(comparison, other))}};
}

std::string logged_csv(const LoggedComparison& comparison, std::string_view other) {
  return logged_table(comparison, other).csv();
}

}  // namespace commlens
