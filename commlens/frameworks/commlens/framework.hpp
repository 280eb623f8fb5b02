#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "commlens/frameworks/commlens/options.hpp"
#include "commlens/frameworks/frameworks.hpp"

namespace commlens::trainer {

/// Our own trainer.
FrameworkRules rules();
/// What its rules mean (rule_book).
std::span<const RuleRow> causes();

Result<void> read_case_section(std::string_view name, const ConfigNode& section, Job& job);
void adopt(Job& job);
/// Of a job that came from another framework's configuration: ZeRO++ outside stage 3 and partitioned
/// activations where nothing is recomputed or split are skipped.
void skip_converted(Job& job);
Bytes bucket(const Job& job);
Result<void> set_bucket(Job& job, Bytes bucket);
std::string setting_text(const Job& job, Setting setting);
std::vector<AdvisedChange> advised_changes(const Job& job, AdviceTopic topic);
void add_variations(Variations& variations);
/// What one rank of a stage holds (memory.hpp).
MemoryEstimate memory_of_stage(const Job& job, std::int64_t stage);

}  // namespace commlens::trainer
