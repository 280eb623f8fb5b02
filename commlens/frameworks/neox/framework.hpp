#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "commlens/frameworks/frameworks.hpp"
#include "commlens/frameworks/neox/options.hpp"

namespace commlens::neox {

/// GPT-NeoX on DeepSpeed 0.14.0.
FrameworkRules rules();
/// What its rules mean (rule_book).
std::span<const RuleRow> causes();

void adopt(Job& job);
SettingRules setting_rules();
/// Whether DeepSpeed's pipeline engine runs the job, which some versions use for one stage too.
bool uses_pipeline_engine(const Job& job);
/// Reads the keys of a configuration that not all versions have; of a job that names no version, a key may
/// choose a later one than the default, which a line of `warnings` notes.
void read_version_keys(MapReader& arguments, Job& job);
/// Refuses what the job's version does not do.
Result<void> check_version(const Job& job);
/// Why nothing of this job was measured with its version.
std::vector<std::string> unverified_by_version(const Job& job);
std::int64_t layers_recomputed_at_once(const Job& job);
std::string setting_text(const Job& job, Setting setting);
void add_variations(Variations& variations);

}  // namespace commlens::neox
