#include "commlens/plan/rules/rules.hpp"

#include <array>

#include "commlens/base/check.hpp"

namespace commlens {
namespace {
const std::array<RuleSet, 6>& all_rule_sets() {
  static const std::array<RuleSet, 6> sets = {rules::k_paper,    rules::k_deepspeed, rules::k_neox,
                                              rules::k_megatron, rules::k_torch_ddp, rules::k_commlens};
  return sets;
}
}  // namespace

std::span<const RuleSet> rule_sets() { return all_rule_sets(); }

const RuleSet& rule_set(Framework framework) {
  for (const RuleSet& set : all_rule_sets()) {
    if (set.framework == framework) {
      return set;
    }
  }
  COMMLENS_CHECK(false, "every framework that validated() lets through has a rule set");
  return all_rule_sets().front();
}

}  // namespace commlens
