#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace commlens {

/// Terms of the paper's equations, and the calls of a framework that serve the same purpose.
enum class Term : std::uint8_t { none, gradients, parameters, boundary, tensor };

/// What the calls of a rule are for. A rule with a term is what the equations know: its bytes are expected,
/// and `cause` names why they come in more or fewer calls, and `less` why in fewer bytes, where that is in
/// the nature of the rule (with the line that decides it). A rule without a term is a cause of its own.
struct RuleMeaning {
  Term term = Term::none;
  std::string_view cause;
  std::string_view less;
  std::string_view less_source;
  friend bool operator==(const RuleMeaning&, const RuleMeaning&) = default;
};

/// One rule, by its name in traces, and what it means.
struct RuleRow {
  std::string_view rule;
  RuleMeaning meaning;
};

/// The meanings of rules, from those who wrote the rules. Rows are constants; the book refers to them.
class RuleBook {
 public:
  void add(std::span<const RuleRow> rows);
  /// Nothing for a rule that is in no row: its calls are then unexplained.
  std::optional<RuleMeaning> meaning_of(std::string_view rule) const;
  /// Every row, for tests.
  const std::vector<RuleRow>& rows() const { return rows_; }

 private:
  std::vector<RuleRow> rows_;  // by name
};

}  // namespace commlens
