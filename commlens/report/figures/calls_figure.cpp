#include "commlens/report/figures/calls_figure.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "commlens/comm/volume.hpp"
#include "commlens/report/breakdown_report.hpp"
#include "commlens/report/figures/labels.hpp"
#include "commlens/report/iteration_text.hpp"
#include "commlens/report/vocabulary.hpp"

namespace commlens {
namespace {

/// A logger prints only the shard of an all_gather.
Cell message_of(const std::optional<CommOp>& op, bool is_logged) {
  return op && !(is_logged && op->kind == CommKind::all_gather) ? Cell(message_bytes(*op)) : Cell();
}

std::string dtypes_of(const Difference& difference) {
  const std::string a(difference.a ? name_of(difference.a->dtype) : "");
  const std::string b(difference.b ? name_of(difference.b->dtype) : "");
  return a.empty() || a == b ? b : b.empty() ? a : fmt::format("{} / {}", a, b);
}

/// "0 1 2 3 …": the first members.
std::string members_of(const std::vector<Rank>& group) {
  constexpr std::size_t most = 16;
  std::string text;
  for (std::size_t at = 0; at < std::min(group.size(), most); ++at) {
    text += fmt::format("{}{}", at == 0 ? "" : " ", group[at].value);
  }
  return group.size() > most ? text + " …" : text;
}

std::string_view verdict_text(Verdict verdict) {
  return verdict == Verdict::missing ? "only in A"
         : verdict == Verdict::extra ? "only in B"
         : verdict == Verdict::size  ? "other size"
                                     : "equal";
}

}  // namespace

FigureResult calls_figure(const FigureInput& input) {
  if (!input.compared) {
    return no_figure(input.not_compared);
  }
  const auto* const comparison = std::get_if<Comparison>(&input.compared->result);
  if (comparison == nullptr) {
    return no_figure("one side knows volumes or printed sizes rather than calls");
  }
  if (comparison->differences.empty()) {
    return no_figure("the two sides are equal");
  }
  Table table(columns({Column{"verdict", "difference"}, "call", "dtype", "message_bytes_a", "message_bytes_b",
                       "calls_all_ranks", "rank_count", "example", "example_group", "rule"}));
  for (const Difference& difference : comparison->differences) {
    const std::string where = group_text(difference.kind, difference.axis, difference.group_size);
    const Rule& rule = difference.rule;
    table.add({verdict_text(difference.verdict),
               fmt::format("{}{}{}", name_of(difference.kind), where.empty() ? "" : " ", where),
               dtypes_of(difference), message_of(difference.a, difference.logged_a),
               message_of(difference.b, difference.logged_b), difference.calls, difference.ranks,
               fmt::format("rank {}, iteration {}", difference.example_rank.value,
                           iteration_text(difference.example_iteration)),
               members_of(difference.example_group),
               rule.source.empty() ? rule.name : fmt::format("{} ({})", rule.name, rule.source)});
  }
  Figure figure;
  figure.caption = fmt::format(
      "Every call that one side has and the other has not, or has with another size; calls that are alike "
      "share one "
      "line, with how many there are over all ranks and iterations compared. A is {}, B is {}. {}.",
      input.compared->a.name, input.compared->b.name,
      counted(comparison->size + comparison->missing + comparison->extra, "calls"));
  figure.columns = figure_columns(table);
  figure.formulas = {"comparison", "message-bytes"};
  return figure;
}

}  // namespace commlens
