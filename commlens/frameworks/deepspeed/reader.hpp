#pragma once
#include <string_view>

#include "commlens/base/result.hpp"
#include "commlens/config/tree.hpp"
#include "commlens/frameworks/config_reader.hpp"
#include "commlens/frameworks/deepspeed/auto_values.hpp"
#include "commlens/frameworks/training_keys.hpp"
#include "commlens/model/job.hpp"

namespace commlens {

/// Puts the settings of a DeepSpeed configuration into `job`; what the configuration does
/// not say stays as it is, "auto" becomes what transformers' trainer sets (`with_auto_settled`). Unknown keys
/// and settings that are skipped become warnings and make the job's predictions unverified
/// (Job::unmodelled); settings that change what is sent beyond that are refused by name.
Result<void> read_deepspeed(const ConfigNode& settings, Job& job, const TrainingArguments& given = {});

/// A `deepspeed` section of a case file, and what its section `options` has of DeepSpeed.
namespace deepspeed {
ConfigReader reader();
const TrainingKeys& training_keys();
Result<void> read_case_section(std::string_view name, const ConfigNode& section, Job& job);
Result<void> read_optimizer_section(MapReader& settings, TrainingRecipe& recipe);
void read_case_layout(MapReader& reader, Job& job);
void read_case_options(MapReader& reader, Job& job);
}  // namespace deepspeed

/// Whether a top-level key belongs to DeepSpeed (a GPT-NeoX file mixes them with its own).
bool is_deepspeed_key(std::string_view key);

}  // namespace commlens
