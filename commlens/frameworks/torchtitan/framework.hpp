#pragma once
#include <span>

#include "commlens/frameworks/frameworks.hpp"

namespace commlens::torchtitan {

/// torchtitan 0.3.0.
FrameworkRules rules();
/// What its rules mean (rule_book).
std::span<const RuleRow> causes();

}  // namespace commlens::torchtitan
