#pragma once
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "commlens/model/job.hpp"

namespace commlens {

/// Largest configuration file we read.
constexpr std::int64_t k_config_size_limit = 1024 * 1024;

/// Reads CONFIG as the command line has it: one preset name, or one or more files that belong together, of
/// the kinds in `config_readers` or a commlens case file. The kind of each file is found from its content.
/// The job is not yet `validated` and its dp may be 0. `framework` replaces the default of the kind. Errors
/// name file:line or the field.
Result<Job> read_config(const std::vector<std::string>& config, std::string_view framework);

/// What CONFIG may be, for help texts; `preset` is an example of one.
std::string config_kinds_text(std::string_view preset);

constexpr std::string_view k_case_file = "a case file";
/// What a file holds, from its first keys: the name of a reader, `k_case_file`, or empty for no
/// configuration.
std::string_view sniff_config(const std::filesystem::path& path, std::string_view content);

}  // namespace commlens
