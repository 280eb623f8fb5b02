#include "commlens/report/explain_report.hpp"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commlens/base/wrapped.hpp"
#include "commlens/report/breakdown_report.hpp"
#include "commlens/report/comparison_report.hpp"
#include "commlens/report/table_json.hpp"
#include "commlens/report/vocabulary.hpp"

namespace commlens {
namespace {

using Json = nlohmann::ordered_json;

std::string signed_number(std::int64_t value) { return (value > 0 ? "+" : "") + with_commas(value); }

/// Removed and added amounts, or the signed difference if only one of them is not 0.
std::string change_text(std::int64_t gone, std::int64_t added) {
  if (gone > 0 && added > 0) {
    return fmt::format("-{} +{}", with_commas(gone), with_commas(added));
  }
  return signed_number(added - gone);
}

std::string rows_title(const Explanation& explanation) {
  const std::string iteration = explanation.iteration == k_unknown_iteration
                                    ? ""
                                    : fmt::format("iteration {}, ", explanation.iteration);
  return fmt::format("why, by cause: what B has more (+) or less (-) than A ({}{} rank{} together)",
                     iteration, explanation.ranks, explanation.ranks == 1 ? "" : "s");
}

/// A line of its own in bold.
std::string heading(const std::string& line, const TextStyle& style) {
  return in_colour(wrapped(line, style), Colour::bold, style) + "\n";
}

Table cause_table() {
  return Table({{.title = "cause", .least = 24},
                {.title = "group"},
                {.title = "op"},
                {.title = "calls", .align = Column::Align::right},
                {.title = "bytes", .align = Column::Align::right},
                {.title = "rule", .drop_first = 1}});
}

void add_rows(Table& table, const std::string& title, const std::vector<ExplainedRow>& rows) {
  for (std::size_t at = 0; at < rows.size(); ++at) {
    const ExplainedRow& row = rows[at];
    table.add({at == 0 ? title : "", group_text(row.kind, row.axis, 0), std::string(name_of(row.kind)),
               change_text(row.calls_a, row.calls_b), change_text(row.message_a.value, row.message_b.value),
               row.rule});
  }
}

std::string causes_text(const std::vector<ExplainedGroup>& groups, const TextStyle& style) {
  Table table = cause_table();
  std::string why;
  for (const ExplainedGroup& group : groups) {
    add_rows(table, group.cause.title, group.rows);
    const std::string source = group.cause.source.empty() ? "" : fmt::format(" [{}]", group.cause.source);
    why += fmt::format("  {}: {}{}\n", group.cause.title, group.cause.sentence, source);
  }
  // Rules are in the notes below, so their column may be hidden.
  return table.text(style) + "\n" + wrapped(why, style);
}

std::string sum_line(const Explanation& explanation, const TextStyle& style) {
  std::int64_t calls = 0;
  std::int64_t bytes = 0;
  for (const ExplainedGroup& group : explanation.explained) {
    calls += group.calls();
    bytes += group.message().value;
  }
  const std::size_t causes = explanation.explained.size();
  const std::string explained =
      fmt::format("explained by {} cause{}: {} bytes in {} calls", causes, causes == 1 ? "" : "s",
                  signed_number(bytes), signed_number(calls));
  if (explanation.complete()) {
    return in_colour(wrapped(explained + "; nothing is left unexplained", style), Colour::green, style) +
           "\n";
  }
  return wrapped(explained, style) + "\n";
}

std::string unexplained_text(const Explanation& explanation, const TextStyle& style) {
  std::string text;
  if (!explanation.unexplained.empty()) {
    Table table = cause_table();
    add_rows(table, "unexplained", explanation.unexplained);
    text += "\n" + in_colour("unexplained: no rule and no setting accounts for", Colour::red, style) + "\n" +
            table.text(style);
  }
  if (!explanation.unexplained_calls.empty()) {
    text += "\n" +
            in_colour("unexplained, call by call (A: as its own framework's rules predict it)", Colour::red,
                      style) +
            "\n" + differences_text(explanation.unexplained_calls, style, 0);
  }
  return text;
}

Table explained_table(const std::vector<ExplainedRow>& rows) {
  Table table(columns({"axis", "op", "rule", "source", "calls_only_a_all_ranks", "calls_only_b_all_ranks",
                       "message_bytes_only_a_all_ranks", "message_bytes_only_b_all_ranks"}));
  for (const ExplainedRow& row : rows) {
    table.add({name_of(row.axis), name_of(row.kind), row.rule, row.source, row.calls_a, row.calls_b,
               row.message_a, row.message_b});
  }
  return table;
}

}  // namespace

std::string explanation_text(const Explanation& explanation, const TextStyle& style) {
  std::string text;
  if (!explanation.explained.empty()) {
    text += "\n" + heading(rows_title(explanation), style) + causes_text(explanation.explained, style) +
            "\n" + sum_line(explanation, style);
  }
  text += unexplained_text(explanation, style);
  for (const std::string& note : explanation.notes) {
    text += "\n" + wrapped(note + "\n", style);
  }
  return text;
}

std::string explained_differences_text(const std::vector<Difference>& differences,
                                       const Explanation& explanation, const std::string& hints,
                                       const TextStyle& style, std::size_t most) {
  std::string text;
  if (!explanation.explained.empty()) {
    text +=
        "\n" +
        heading(
            "calls that differ, by what they are for: what B has more (+) or less (-) than A, all ranks and "
            "iterations",
            style) +
        causes_text(explanation.explained, style);
  }
  if (!hints.empty()) {
    const std::string lines = wrapped(hints, style);
    text += "\n" + in_colour(lines.substr(0, lines.find_last_not_of('\n') + 1), Colour::yellow, style) + "\n";
  }
  std::vector<Difference> explained;
  std::copy_if(differences.begin(), differences.end(), std::back_inserter(explained),
               [](const Difference& difference) { return !difference.cause.empty(); });
  text += explained.empty() ? "" : "\n" + differences_text(explained, style, most);
  if (!explanation.unexplained_calls.empty()) {
    const std::vector<Difference>& rest = explanation.unexplained_calls;
    // Those of a known cause are left of a second step, from the prediction with other settings.
    const bool has_rules = std::any_of(
        rest.begin(), rest.end(), [](const Difference& difference) { return !difference.cause.empty(); });
    const char* const title =
        has_rules ? "unexplained: what still differs with the settings above; a rule that is named "
                    "predicts such a call, of another size or number"
                  : "unexplained: calls that no rule accounts for";
    text += "\n" + in_colour(wrapped(title, style), Colour::red, style) + "\n" +
            differences_text(explanation.unexplained_calls, style, 0);
  }
  return text;
}

void add_explanation(const Explanation& explanation, Json& json) {
  Json explained = Json::array();
  for (const ExplainedGroup& group : explanation.explained) {
    explained.push_back({{"cause", group.cause.name},
                         {"title", group.cause.title},
                         {"why", group.cause.sentence},
                         {"source", group.cause.source},
                         {"more_calls_in_b_all_ranks", group.calls()},
                         {"more_message_bytes_in_b_all_ranks", group.message().value},
                         {"rows", rows_json(explained_table(group.rows))}});
  }
  json["explained"] = std::move(explained);
  json["unexplained"] = rows_json(explained_table(explanation.unexplained));
  json["unexplained_calls"] = rows_json(differences_table(explanation.unexplained_calls));
  json["notes"] = explanation.notes;
}

void add_explanation(const Explanation& explanation, Table& table) {
  const auto add = [&](std::string_view cause, const std::vector<ExplainedRow>& rows) {
    for (const ExplainedRow& row : rows) {
      table.add({name_of(row.axis),
                 name_of(row.kind),
                 {},
                 {},
                 {},
                 {},
                 cause,
                 row.rule,
                 row.source,
                 row.calls_a,
                 row.calls_b,
                 row.message_a,
                 row.message_b,
                 {}});
    }
  };
  for (const ExplainedGroup& group : explanation.explained) {
    add(group.cause.name, group.rows);
  }
  add("unexplained", explanation.unexplained);
}

}  // namespace commlens
