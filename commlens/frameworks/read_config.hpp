#pragma once
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "commlens/model/job.hpp"

namespace commlens {

/// Largest configuration file we read.
constexpr std::int64_t k_config_size_limit = 1024 * 1024;

/// Reads CONFIG as the command line has it: one preset name, or one or more files that belong together
/// (GPT-NeoX yml files merged in order, a DeepSpeed JSON beside them; a Hugging Face config.json; Megatron
/// arguments; a commlens case file). The kind of each file is found from its content. The job is not yet
/// `validated` and its dp may be 0. `framework` replaces the default of the kind. Errors name file:line or
/// the field.
Result<Job> read_config(const std::vector<std::string>& config, std::string_view framework);

/// What CONFIG may be, for help texts; `preset` is an example of one.
std::string config_kinds_text(std::string_view preset);

/// What a file holds, from its first keys.
enum class ConfigKind { case_yaml, neox_yaml, deepspeed_json, hf_json, megatron_args, not_a_config };
ConfigKind sniff_config(const std::filesystem::path& path, std::string_view content);

}  // namespace commlens
