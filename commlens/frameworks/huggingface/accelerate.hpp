#pragma once
#include "commlens/base/result.hpp"
#include "commlens/config/tree.hpp"
#include "commlens/frameworks/config_reader.hpp"
#include "commlens/model/job.hpp"

namespace commlens::huggingface {

/// The YAML that `accelerate config` writes, beside a config.json.
ConfigReader accelerate_reader();
/// Puts its settings into `job`; what it does not name gets the default of `accelerate launch` (accelerate
/// 1.15 commands/launch.py). What has no rules is refused by name.
Result<void> read_accelerate(const ConfigNode& file, Job& job);

}  // namespace commlens::huggingface
