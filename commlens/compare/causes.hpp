#pragma once
#include <optional>
#include <string_view>
#include <vector>

#include "commlens/compare/explain.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens {

/// Terms of the paper's equations, and the calls of a framework that serve the same purpose.
enum class Term : std::uint8_t { none, gradients, parameters, boundary, tensor };

/// What the table says of a rule. A rule with a term is what the equations know: its bytes are expected, and
/// `cause` names why they come in more or fewer calls, and `less` why in fewer bytes, where that is in the
/// nature of the rule (with the line that decides it). A rule without a term is a cause of its own.
struct RuleMeaning {
  Term term = Term::none;
  std::string_view cause;
  std::string_view less;
  std::string_view less_source;
  friend bool operator==(const RuleMeaning&, const RuleMeaning&) = default;
};

/// Nothing for a rule that the table does not have: its calls are then unexplained.
std::optional<RuleMeaning> meaning_of(std::string_view rule);

/// The cause of that name; the name itself as title when the table does not have it.
Cause cause_named(std::string_view name);

/// The cause of a term's calls where calls are compared one by one: what they are for.
std::string_view cause_of(Term term);

/// Every rule the table knows, for tests.
std::vector<std::string_view> explained_rules();
/// Every cause the table knows, for tests.
std::vector<std::string_view> cause_names();

}  // namespace commlens
