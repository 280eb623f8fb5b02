#include "commlens/report/comparison_report.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commlens/comm/volume.hpp"
#include "commlens/report/breakdown_report.hpp"
#include "commlens/report/iteration_text.hpp"
#include "commlens/report/table_json.hpp"
#include "commlens/report/vocabulary.hpp"
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

/// Dtype and exact sizes, because a difference may be one byte. A logger prints one size for every kind.
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

/// Whether the output size is known: a logger prints only one of a call's two sizes.
bool knows_output(const CommOp& op, bool is_logged) {
  const bool has_two = op.kind == CommKind::all_gather || op.kind == CommKind::reduce_scatter ||
                       op.kind == CommKind::all_to_all || op.kind == CommKind::other;
  return !is_logged || !has_two;
}

/// Element type, input and output of one side, printed as one text for people.
std::vector<Cell> shape_cells(const std::optional<CommOp>& op, bool is_logged) {
  Cell dtype = (op ? Cell(name_of(op->dtype)) : Cell()).shown(shape_text(op, is_logged));
  if (!op) {
    return {dtype, {}, {}};
  }
  return {dtype, op->input * op->dtype, knows_output(*op, is_logged) ? Cell(op->output * op->dtype) : Cell()};
}

Cell message_cell(const std::optional<CommOp>& op, bool is_logged) {
  return op && (!is_logged || op->kind != CommKind::all_gather) ? Cell(message_bytes(*op)) : Cell();
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

/// "reduce op: 48 equal calls combine otherwise: reduce_scatter avg in A, premul_sum in B (48)".
std::string reduce_ops_text(const Comparison& comparison) {
  std::string kinds;
  for (const ReduceOpDifference& difference : comparison.reduce_ops) {
    kinds +=
        fmt::format("{}{} {} in A, {} in B ({} calls)", kinds.empty() ? "" : "; ", name_of(difference.kind),
                    name_of(difference.a), name_of(difference.b), with_commas(difference.calls));
  }
  return kinds.empty() ? "" : fmt::format("reduce op, which makes no difference: {}\n", kinds);
}

Bytes mean_of(Bytes sum, std::int64_t calls) { return {sum.value / std::max<std::int64_t>(calls, 1)}; }

/// Of calls whose sizes depend on data, those whose mean sizes are apart.
std::string counted_text(const Comparison& comparison) {
  std::string text;
  for (const CountedSizes& sizes : comparison.counted_sizes) {
    if (sizes.are_apart()) {
      text += fmt::format(
          "sizes that depend on data, of which only the number of calls was compared: {} {}, {} calls, in "
          "the mean {} "
          "in A and {} in B{}\n",
          name_of(sizes.kind), group_text(sizes.kind, sizes.axis, sizes.group_size), with_commas(sizes.calls),
          to_text(mean_of(sizes.message_a, sizes.calls)), to_text(mean_of(sizes.message_b, sizes.calls)),
          sizes.kind == CommKind::all_to_all
              ? "; do both route tokens to as many experts, with the same capacity?"
              : "");
    }
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
  text += reduce_ops_text(comparison);
  text += counted_text(comparison);
  text += not_compared(comparison);
  if (comparison.ignored > 0) {
    text += fmt::format("skipped: {} barriers and ignored calls of both sides\n", comparison.ignored);
  }
  return text;
}

std::string comparison_text(const Comparison& comparison, bool order_counts, const TextStyle& style,
                            std::size_t most) {
  const std::string text = comparison_head(comparison, order_counts, style);
  return comparison.differences.empty() ? text
                                        : text + "\n" + differences_text(comparison.differences, style, most);
}

std::string differences_text(const std::vector<Difference>& differences, const TextStyle& style,
                             std::size_t most) {
  const std::size_t shown = most == 0 ? differences.size() : std::min(most, differences.size());
  std::string text = differences_table(std::span(differences).first(shown)).text_with_hidden(style);
  if (shown < differences.size()) {
    text += fmt::format("… and {} more kinds of difference; --format json or csv has them all\n",
                        differences.size() - shown);
  }
  return text;
}

Table differences_table(std::span<const Difference> differences) {
  Table table(
      columns({Column{.key = "verdict", .title = "difference"},
               "op",
               data("axis"),
               Column{.key = "group_size", .title = "group", .align = Column::Align::left, .drop_first = 3},
               Column{.key = "dtype_a", .title = "A", .align = Column::Align::right, .least = 14},
               data("input_bytes_a"),
               data("output_bytes_a"),
               Column{.key = "dtype_b", .title = "B", .align = Column::Align::right, .least = 14},
               data("input_bytes_b"),
               data("output_bytes_b"),
               "calls_all_ranks",
               Column{.key = "rank_count", .drop_first = 2},
               Column{.key = "example_rank",
                      .title = "for example",
                      .align = Column::Align::left,
                      .drop_first = 1,
                      .least = 20},
               data("example_iteration"),
               Column{.key = "rule", .least = 12},
               data("cause"),
               data("message_bytes_a"),
               data("message_bytes_b"),
               data("example_group"),
               data("source"),
               data("tag")}));
  for (const Difference& difference : differences) {
    std::vector<std::int64_t> group;
    for (const Rank rank : difference.example_group) {
      group.push_back(rank.value);
    }
    const Rule& rule = difference.rule;
    std::vector<Cell> cells = {
        Cell(name_of(difference.verdict)).shown(std::string(side_text(difference.verdict))),
        name_of(difference.kind), name_of(difference.axis),
        Cell(difference.group_size)
            .shown(group_text(difference.kind, difference.axis, difference.group_size))};
    for (const auto& side :
         {shape_cells(difference.a, difference.logged_a), shape_cells(difference.b, difference.logged_b)}) {
      cells.insert(cells.end(), side.begin(), side.end());
    }
    for (Cell& cell : std::vector<Cell>{difference.calls, difference.ranks,
                                        Cell(difference.example_rank).shown(example_text(difference)),
                                        iteration_cell(difference.example_iteration),
                                        Cell(rule.name).shown(rule.name.empty() ? difference.tag : rule.name),
                                        difference.cause, message_cell(difference.a, difference.logged_a),
                                        message_cell(difference.b, difference.logged_b), std::move(group),
                                        rule.source, difference.tag}) {
      cells.push_back(std::move(cell));
    }
    table.add(std::move(cells));
  }
  return table;
}

namespace {

Json reduce_ops_json(const Comparison& comparison) {
  Json json = Json::array();
  for (const ReduceOpDifference& difference : comparison.reduce_ops) {
    json.push_back({{"op", name_of(difference.kind)},
                    {"reduce_op_a", name_of(difference.a)},
                    {"reduce_op_b", name_of(difference.b)},
                    {"calls_all_ranks", difference.calls}});
  }
  return json;
}

Json counted_json(const Comparison& comparison) {
  Json json = Json::array();
  for (const CountedSizes& sizes : comparison.counted_sizes) {
    json.push_back({{"op", name_of(sizes.kind)},
                    {"axis", name_of(sizes.axis)},
                    {"group_size", sizes.group_size},
                    {"calls_all_ranks", sizes.calls},
                    {"mean_message_bytes_a", mean_of(sizes.message_a, sizes.calls).value},
                    {"mean_message_bytes_b", mean_of(sizes.message_b, sizes.calls).value}});
  }
  return json;
}

}  // namespace

Json comparison_json(const Comparison& comparison, bool order_counts) {
  const bool unknown = !comparison.iterations.empty() && comparison.iterations.front() == k_unknown_iteration;
  return {{"schema", "commlens.compare/2"},
          {"equal", comparison.equal() && !(order_counts && comparison.order_differs > 0)},
          {"rank_count", comparison.ranks},
          {"iterations", unknown ? Json::array() : Json(comparison.iterations)},
          {"calls_a_all_ranks", comparison.calls_a},
          {"calls_b_all_ranks", comparison.calls_b},
          {"equal_calls_all_ranks", comparison.exact},
          {"resized_calls_all_ranks", comparison.size},
          {"calls_only_a_all_ranks", comparison.missing},
          {"calls_only_b_all_ranks", comparison.extra},
          {"ignored_calls_all_ranks", comparison.ignored},
          {"order_counts", order_counts},
          {"reordered_sequences", comparison.order_differs},
          {"reduce_ops", reduce_ops_json(comparison)},
          {"counted_sizes", counted_json(comparison)},
          {"iterations_only_a", comparison.only_a},
          {"iterations_only_b", comparison.only_b},
          {"rank_count_only_a", comparison.ranks_only_a},
          {"rank_count_only_b", comparison.ranks_only_b},
          {"differences", rows_json(differences_table(comparison.differences))}};
}

std::string comparison_csv(const Comparison& comparison, bool order_counts) {
  Table table = differences_table(comparison.differences);
  if (!order_counts) {
    return table.csv();
  }
  // A separate row for the sequences, which are not calls.
  Table with_order = table.with(columns({data("reordered_sequences")}));
  if (comparison.order_differs > 0) {
    std::vector<Cell> cells(with_order.columns().size());
    cells.front() = "order";
    cells.back() = comparison.order_differs;
    with_order.add(std::move(cells));
  }
  return with_order.csv();
}

}  // namespace commlens
