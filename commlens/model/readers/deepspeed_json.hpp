#pragma once
#include <string_view>

#include "commlens/base/result.hpp"
#include "commlens/model/job.hpp"
#include "commlens/model/readers/config_node.hpp"

namespace commlens {

/// Puts the settings of a DeepSpeed configuration (version 0.14.0) into `job`; what the configuration does
/// not say stays as it is. Unknown keys become warnings, settings whose messages no rule knows are refused by
/// name.
Result<void> read_deepspeed(const ConfigNode& settings, Job& job);

/// Whether a top-level key belongs to DeepSpeed (a GPT-NeoX file mixes them with its own).
bool is_deepspeed_key(std::string_view key);

}  // namespace commlens
