#include "commlens/report/comparison_report.hpp"

#include <array>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commlens/comm/volume.hpp"
#include "commlens/report/breakdown_report.hpp"
#include "commlens/report/csv.hpp"
#include "commlens/report/iteration_text.hpp"
#include "commlens/trace/logger_view.hpp"

namespace commlens {
namespace {

using Json = nlohmann::ordered_json;

std::string iterations_text(const std::vector<Iteration>& iterations) {
  if (iterations.empty() || iterations.front() == k_unknown_iteration) {
    return "iterations unknown";
  }
  if (iterations.size() == 1) {
    return fmt::format("iteration {}", iterations.front());
  }
  const bool gapless =
      static_cast<std::size_t>(iterations.back() - iterations.front()) + 1 == iterations.size();
  return gapless ? fmt::format("iterations {} to {}", iterations.front(), iterations.back())
                 : fmt::format("iterations {}", fmt::join(iterations, ", "));
}

/// Dtype and exact sizes: differences may be of one byte. A logger prints one size, whatever the kind.
std::string shape_text(const std::optional<CommOp>& op, bool is_logged) {
  if (!op) {
    return "-";
  }
  if (is_logged) {
    return fmt::format("{} {} B", name_of(op->dtype), with_commas(logged_bytes(*op).value));
  }
  const Bytes input = op->input * op->dtype;
  const Bytes output = op->output * op->dtype;
  const bool both = op->kind == CommKind::all_gather || op->kind == CommKind::reduce_scatter ||
                    op->kind == CommKind::all_to_all || (input != output && !is_point_to_point(op->kind));
  return both ? fmt::format("{} in {} out {} B", name_of(op->dtype), with_commas(input.value),
                            with_commas(output.value))
              : fmt::format("{} {} B", name_of(op->dtype), with_commas(message_bytes(*op).value));
}

std::string members_text(const std::vector<Rank>& members) {
  constexpr std::size_t most = 6;
  std::string text;
  for (std::size_t at = 0; at < members.size() && at < most; ++at) {
    text += fmt::format("{}{}", at == 0 ? "" : " ", members[at].value);
  }
  return members.size() > most ? text + " …" : text;
}

std::string example_text(const Difference& difference) {
  const std::string iteration = difference.example_iteration == k_unknown_iteration
                                    ? ""
                                    : fmt::format(" iteration {}", difference.example_iteration);
  return fmt::format("rank {}{} group [{}]", difference.example_rank.value, iteration,
                     members_text(difference.example_group));
}

/// Whether an op has its output: of a call with two sizes a logger prints one.
bool knows_output(const CommOp& op, bool is_logged) {
  const bool has_two = op.kind == CommKind::all_gather || op.kind == CommKind::reduce_scatter ||
                       op.kind == CommKind::all_to_all || op.kind == CommKind::other;
  return !is_logged || !has_two;
}

Json shape_json(const std::optional<CommOp>& op, bool is_logged) {
  if (!op) {
    return nullptr;
  }
  const bool knows_message = !is_logged || op->kind != CommKind::all_gather;
  return {{"dtype", name_of(op->dtype)},
          {"input_bytes", (op->input * op->dtype).value},
          {"output_bytes", knows_output(*op, is_logged) ? Json((op->output * op->dtype).value) : Json()},
          {"message_bytes", knows_message ? Json(message_bytes(*op).value) : Json()}};
}

std::string_view side_text(Verdict verdict) {
  return verdict == Verdict::missing ? "only in A" : verdict == Verdict::extra ? "only in B" : "size";
}

std::string not_compared(const Comparison& comparison) {
  std::string text;
  const auto add = [&](const std::string& what, std::string_view side) {
    text += fmt::format("not compared: {}, which only {} has\n", what, side);
  };
  if (!comparison.only_a.empty()) {
    add(iterations_text(comparison.only_a), "A");
  }
  if (!comparison.only_b.empty()) {
    add(iterations_text(comparison.only_b), "B");
  }
  if (comparison.ranks_only_a > 0) {
    add(fmt::format("{} ranks", comparison.ranks_only_a), "A");
  }
  if (comparison.ranks_only_b > 0) {
    add(fmt::format("{} ranks", comparison.ranks_only_b), "B");
  }
  return text;
}

}  // namespace

std::string verdict_line(const Comparison& comparison, bool order_counts) {
  const std::string scope = fmt::format("({} rank{}, {})", comparison.ranks, comparison.ranks == 1 ? "" : "s",
                                        iterations_text(comparison.iterations));
  const std::int64_t all = comparison.exact + comparison.size + comparison.missing + comparison.extra;
  if (comparison.equal()) {
    return order_counts && comparison.order_differs > 0
               ? fmt::format("different: {} of {} calls equal, but in another order {}", comparison.exact,
                             all, scope)
               : fmt::format("equal: {} of {} calls {}", comparison.exact, all, scope);
  }
  std::string parts;
  for (const auto& [count, what] :
       {std::pair(comparison.size, "of another size"), std::pair(comparison.missing, "only in A"),
        std::pair(comparison.extra, "only in B")}) {
    parts += count == 0 ? "" : fmt::format(", {} {}", count, what);
  }
  return fmt::format("different: {} of {} calls equal{} {}", comparison.exact, all, parts, scope);
}

std::string comparison_head(const Comparison& comparison, bool order_counts, const TextStyle& style) {
  const bool same = comparison.equal() && !(order_counts && comparison.order_differs > 0);
  std::string text =
      in_colour(verdict_line(comparison, order_counts), same ? Colour::green : Colour::red, style) + "\n";
  if (comparison.order_differs > 0) {
    text += fmt::format(
        "order: {} of {} sequences (one per rank and iteration) issue equal calls in another order\n",
        comparison.order_differs, comparison.ranks * static_cast<std::int64_t>(comparison.iterations.size()));
  }
  text += not_compared(comparison);
  if (comparison.ignored > 0) {
    text += fmt::format("left out: {} barriers and ignored calls of both sides\n", comparison.ignored);
  }
  return text;
}

std::string comparison_text(const Comparison& comparison, bool order_counts, const TextStyle& style,
                            std::size_t most) {
  const std::string text = comparison_head(comparison, order_counts, style);
  return comparison.differences.empty()
             ? text
             : text + "\n" + differences_table(comparison.differences, style, most);
}

std::string differences_table(const std::vector<Difference>& differences, const TextStyle& style,
                              std::size_t most) {
  Table table({{.title = "difference"},
               {.title = "op"},
               {.title = "group", .drop_first = 3},
               {.title = "A", .align = Column::Align::right, .least = 14},
               {.title = "B", .align = Column::Align::right, .least = 14},
               {.title = "calls", .align = Column::Align::right},
               {.title = "ranks", .align = Column::Align::right, .drop_first = 2},
               {.title = "for example", .drop_first = 1, .least = 20},
               {.title = "rule", .least = 12}});
  std::size_t shown = 0;
  for (const Difference& difference : differences) {
    if (most > 0 && shown == most) {
      break;
    }
    ++shown;
    table.add({std::string(side_text(difference.verdict)), std::string(name_of(difference.kind)),
               group_text(difference.kind, difference.axis, difference.group_size),
               shape_text(difference.a, difference.logged_a), shape_text(difference.b, difference.logged_b),
               with_commas(difference.calls), with_commas(difference.ranks), example_text(difference),
               difference.rule.name.empty() ? difference.tag : difference.rule.name});
  }
  std::string text = table.text_with_hidden(style);
  if (shown < differences.size()) {
    text += fmt::format("… and {} more kinds of difference; --format json or csv has them all\n",
                        differences.size() - shown);
  }
  return text;
}

Json differences_json(const std::vector<Difference>& all) {
  Json differences = Json::array();
  for (const Difference& difference : all) {
    Json group = Json::array();
    for (const Rank rank : difference.example_group) {
      group.push_back(rank.value);
    }
    differences.push_back({{"verdict", name_of(difference.verdict)},
                           {"op", name_of(difference.kind)},
                           {"axis", name_of(difference.axis)},
                           {"group_size", difference.group_size},
                           {"a", shape_json(difference.a, difference.logged_a)},
                           {"b", shape_json(difference.b, difference.logged_b)},
                           {"calls_all_ranks", difference.calls},
                           {"ranks", difference.ranks},
                           {"example",
                            {{"rank", difference.example_rank.value},
                             {"iteration", iteration_json(difference.example_iteration)},
                             {"group", group}}},
                           {"rule", difference.rule.name},
                           {"source", difference.rule.source},
                           {"tag", difference.tag},
                           {"cause", difference.cause}});
  }
  return differences;
}

Json comparison_json(const Comparison& comparison, bool order_counts) {
  const bool unknown = !comparison.iterations.empty() && comparison.iterations.front() == k_unknown_iteration;
  return {{"schema", "commlens.compare/1"},
          {"equal", comparison.equal() && !(order_counts && comparison.order_differs > 0)},
          {"ranks", comparison.ranks},
          {"iterations", unknown ? Json::array() : Json(comparison.iterations)},
          {"calls_a", comparison.calls_a},
          {"calls_b", comparison.calls_b},
          {"exact", comparison.exact},
          {"size", comparison.size},
          {"missing", comparison.missing},
          {"extra", comparison.extra},
          {"ignored", comparison.ignored},
          {"order_counts", order_counts},
          {"order_differs", comparison.order_differs},
          {"iterations_only_a", comparison.only_a},
          {"iterations_only_b", comparison.only_b},
          {"ranks_only_a", comparison.ranks_only_a},
          {"ranks_only_b", comparison.ranks_only_b},
          {"differences", differences_json(comparison.differences)}};
}

std::string comparison_csv(const Comparison& comparison, bool order_counts) {
  std::vector<std::string> titles = {"verdict",
                                     "op",
                                     "axis",
                                     "group_size",
                                     "dtype_a",
                                     "input_bytes_a",
                                     "output_bytes_a",
                                     "dtype_b",
                                     "input_bytes_b",
                                     "output_bytes_b",
                                     "calls_all_ranks",
                                     "ranks",
                                     "example_rank",
                                     "example_iteration",
                                     "rule",
                                     "cause"};
  if (order_counts) {
    titles.emplace_back("sequences_in_another_order");
  }
  std::string text = csv_line(titles);
  for (const Difference& difference : comparison.differences) {
    std::vector<std::string> cells = {
        std::string(name_of(difference.verdict)), std::string(name_of(difference.kind)),
        std::string(name_of(difference.axis)), std::to_string(difference.group_size)};
    for (const auto& [op, is_logged] :
         {std::pair(difference.a, difference.logged_a), std::pair(difference.b, difference.logged_b)}) {
      cells.push_back(op ? std::string(name_of(op->dtype)) : "");
      cells.push_back(op ? std::to_string((op->input * op->dtype).value) : "");
      cells.push_back(op && knows_output(*op, is_logged) ? std::to_string((op->output * op->dtype).value)
                                                         : "");
    }
    for (const std::int64_t number : {difference.calls, difference.ranks, difference.example_rank.value}) {
      cells.push_back(std::to_string(number));
    }
    cells.push_back(iteration_cell(difference.example_iteration));
    cells.push_back(difference.rule.name);
    cells.emplace_back(difference.cause);
    cells.resize(titles.size());
    text += csv_line(cells);
  }
  if (order_counts && comparison.order_differs > 0) {
    std::vector<std::string> cells(titles.size());
    cells.front() = "order";
    cells.back() = std::to_string(comparison.order_differs);
    text += csv_line(cells);
  }
  return text;
}

}  // namespace commlens
