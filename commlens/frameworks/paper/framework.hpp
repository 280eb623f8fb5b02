#pragma once
#include "commlens/frameworks/frameworks.hpp"

namespace commlens::paper {

/// The equations of arXiv 2408.10197.
FrameworkRules rules();
/// What its rules mean (rule_book).
std::span<const RuleRow> causes();

}  // namespace commlens::paper
