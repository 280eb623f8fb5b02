#pragma once
#include <cstdint>
#include <string>

#include "commlens/frameworks/frameworks.hpp"
#include "commlens/frameworks/neox/options.hpp"

namespace commlens::neox {

/// GPT-NeoX on DeepSpeed 0.14.0.
FrameworkRules rules();
/// What its rules mean (rule_book).
std::span<const RuleRow> causes();

void adopt(Job& job);
void settle(Job& job);
bool has_sequence_parallelism(const Job& job);
/// With the default version, which has none, the later one is taken; a line of `warnings` says so.
void ask_for_sequence_parallelism(Job& job);
std::int64_t layers_recomputed_at_once(const Job& job);
std::string setting_text(const Job& job, Setting setting);
void add_variations(Variations& variations);

}  // namespace commlens::neox
