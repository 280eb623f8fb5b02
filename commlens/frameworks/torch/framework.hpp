#pragma once
#include <span>
#include <vector>

#include "commlens/frameworks/frameworks.hpp"

namespace commlens::pytorch {

constexpr std::string_view k_family_prefix = "torch-";
constexpr std::string_view k_ddp = "torch-ddp";
constexpr std::string_view k_fsdp = "torch-fsdp";
/// torch-ddp, torch-fsdp, torch-tp and torch-pipeline: one rule set under four names.
std::vector<FrameworkRules> rules();
/// What its rules mean (rule_book).
std::span<const RuleRow> causes();

}  // namespace commlens::pytorch
