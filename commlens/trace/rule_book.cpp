#include "commlens/trace/rule_book.hpp"

#include <algorithm>

namespace commlens {

void RuleBook::add(std::span<const RuleRow> rows) {
  rows_.insert(rows_.end(), rows.begin(), rows.end());
  std::sort(rows_.begin(), rows_.end(), [](const RuleRow& a, const RuleRow& b) { return a.rule < b.rule; });
}

std::optional<RuleMeaning> RuleBook::meaning_of(std::string_view rule) const {
  const auto found =
      std::lower_bound(rows_.begin(), rows_.end(), rule,
                       [](const RuleRow& row, std::string_view name) { return row.rule < name; });
  return found == rows_.end() || found->rule != rule ? std::nullopt : std::optional(found->meaning);
}

}  // namespace commlens
