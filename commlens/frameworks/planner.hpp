#pragma once
#include <optional>

#include "commlens/plan/plan.hpp"

namespace commlens {

struct FrameworkRules;

/// Predicts every message of a validated job by the rules of its framework. `only` computes the class of that
/// rank alone. Fails when the rule set does not support something the job asks for, by name.
Result<Plan> make_plan(const Job& job, std::optional<Rank> only = std::nullopt);
/// The same by rules that need not be in the list of frameworks.
Result<Plan> make_plan(const Job& job, const FrameworkRules& rules, std::optional<Rank> only = std::nullopt);

}  // namespace commlens
