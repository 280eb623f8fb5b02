#include "commlens/report/whole_job_report.hpp"

#include <algorithm>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commlens/compare/scope.hpp"
#include "commlens/report/breakdown_report.hpp"
#include "commlens/report/table_json.hpp"
#include "commlens/report/vocabulary.hpp"

namespace commlens {
namespace {

using Json = nlohmann::ordered_json;

std::string whole_job_op(const WholeJobRow& row) {
  return row.name.empty() ? std::string(name_of(row.kind)) : row.name;
}

std::string count_of_ranks(std::int64_t ranks) {
  return fmt::format("{} rank{}", ranks, ranks == 1 ? "" : "s");
}

std::string verdict_of(const WholeJobComparison& comparison) {
  const std::int64_t only_a = comparison.calls_a - comparison.exact;
  const std::int64_t only_b = comparison.calls_b - comparison.exact;
  std::string parts;
  for (const auto& [calls, side] : {std::pair(only_a, "A"), std::pair(only_b, "B")}) {
    parts += calls == 0 ? "" : fmt::format(", {} only in {}", calls, side);
  }
  const std::int64_t all = comparison.exact + only_a + only_b;
  const std::string scope = fmt::format("({}, the whole job)", count_of_ranks(comparison.ranks));
  return comparison.equal()
             ? fmt::format("equal: {} of {} calls {}", comparison.exact, all, scope)
             : fmt::format("different: {} of {} calls equal{} {}", comparison.exact, all, parts, scope);
}

/// "" if the members are compared.
std::string detail_text(std::string_view ops, GroupDetail detail) {
  return detail == GroupDetail::members ? ""
         : detail == GroupDetail::size
             ? fmt::format(
                   "groups of {}: compared by their size, because one side does not report their ranks\n",
                   ops)
             : fmt::format("groups of {}: not compared, because one side does not report them\n", ops);
}

std::string how_text(const WholeJobComparison& comparison) {
  const char* const lacking = comparison.b_lacks_iterations ? "B" : "A";
  const char* const known = comparison.b_lacks_iterations ? "A" : "B";
  std::string text = fmt::format(
      "{0} does not say which iteration a call is of: counted are the calls of each rank per op, group and "
      "message "
      "size, all of {0} against {3} {2} of {1}\n"
      "not compared: their order, element types and roots\n",
      lacking, known, to_text(comparison.iterations),
      comparison.iterations.size() == 1 ? "iteration" : "iterations");
  text += detail_text("collectives", comparison.collectives);
  if (comparison.messages != GroupDetail::members) {
    text += "send and recv: compared without their peer rank, because one side does not report it\n";
  }
  for (const auto& [ranks, side] :
       {std::pair(comparison.ranks_only_a, "A"), std::pair(comparison.ranks_only_b, "B")}) {
    text +=
        ranks == 0 ? "" : fmt::format("not compared: {}, which only {} has\n", count_of_ranks(ranks), side);
  }
  if (comparison.ignored > 0) {
    text += fmt::format("skipped: {} barriers and ignored calls of both sides\n", comparison.ignored);
  }
  return text;
}

std::string_view detail_name(GroupDetail detail) {
  return detail == GroupDetail::members ? "members" : detail == GroupDetail::size ? "size" : "not compared";
}

/// At most `most` rows; 0: all.
Table whole_job_table(const WholeJobComparison& comparison, std::size_t most) {
  Table table(
      columns({Column{.title = ""}, "op", data("name"),
               Column{.key = "group_size", .title = "group", .align = Column::Align::left}, "message_bytes",
               "calls_a_all_ranks", "calls_b_all_ranks", "equal_calls_all_ranks", data("equal")}));
  for (const WholeJobRow& row : comparison.rows) {
    if (most > 0 && table.rows().size() == most) {
      break;
    }
    table.add({row.equal() ? "" : "differs", Cell(name_of(row.kind)).shown(whole_job_op(row)), row.name,
               (row.group_size == 0 ? Cell() : Cell(row.group_size))
                   .shown(group_text(row.kind, Axis::unknown, row.group_size)),
               Cell(row.message).shown(with_commas(row.message.value) + " B"), row.calls_a, row.calls_b,
               row.exact, row.equal()});
  }
  return table;
}

}  // namespace

std::string whole_job_text(const WholeJobComparison& comparison, const TextStyle& style, std::size_t most) {
  std::string text =
      in_colour(verdict_of(comparison), comparison.equal() ? Colour::green : Colour::red, style) + "\n" +
      how_text(comparison) + "\n";
  const Table table = whole_job_table(comparison, most);
  text += table.text_with_hidden(style);
  if (table.rows().size() < comparison.rows.size()) {
    text += fmt::format("… and {} more lines; --format json or csv has them all\n",
                        comparison.rows.size() - table.rows().size());
  }
  return text;
}

Json whole_job_json(const WholeJobComparison& comparison) {
  return {{"schema", "commlens.compare_whole_job/2"},
          {"equal", comparison.equal()},
          {"scope", "whole job, all ranks that both sides have"},
          {"iterations_unknown", comparison.b_lacks_iterations ? "b" : "a"},
          {"iterations", comparison.iterations},
          {"groups_of_collectives", detail_name(comparison.collectives)},
          {"groups_of_send_and_recv", detail_name(comparison.messages)},
          {"rank_count", comparison.ranks},
          {"rank_count_only_a", comparison.ranks_only_a},
          {"rank_count_only_b", comparison.ranks_only_b},
          {"calls_a_all_ranks", comparison.calls_a},
          {"calls_b_all_ranks", comparison.calls_b},
          {"equal_calls_all_ranks", comparison.exact},
          {"ignored_calls_all_ranks", comparison.ignored},
          {"rows", rows_json(whole_job_table(comparison, 0))}};
}

std::string whole_job_csv(const WholeJobComparison& comparison) {
  return whole_job_table(comparison, 0).csv();
}

}  // namespace commlens
