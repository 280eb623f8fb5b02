#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "commlens/frameworks/frameworks.hpp"
#include "commlens/frameworks/megatron/options.hpp"

namespace commlens::megatron {

/// Megatron-LM core_v0.7.0.
FrameworkRules rules();
/// What its rules mean (rule_book).
std::span<const RuleRow> causes();

void adopt(Job& job);
void settle(Job& job);
std::int64_t gradient_bytes(const Job& job);
std::string setting_text(const Job& job, Setting setting);
std::vector<AdvisedChange> advised_changes(const Job& job, AdviceTopic topic);
void add_variations(Variations& variations);

}  // namespace commlens::megatron
