#pragma once
#include "commlens/base/result.hpp"
#include "commlens/config/tree.hpp"
#include "commlens/frameworks/config_reader.hpp"
#include "commlens/model/job.hpp"

namespace commlens::huggingface {

/// A JSON or YAML of TrainingArguments (transformers 5.23 training_args.py) beside a config.json.
ConfigReader training_arguments_reader();
/// Puts its settings into `job`; what it does not name gets the default of TrainingArguments. Keys that send
/// nothing are accepted, those whose messages have no rules refused or, where the messages of a training step
/// stay the same, noted as not modelled.
Result<void> read_training_arguments(const ConfigNode& arguments, Job& job);

/// `fsdp_config` as TrainingArguments have it, a prefix fsdp_ of its keys left out.
Result<void> read_fsdp_config(const ConfigNode& section, Job& job);

/// `parallelism_config` of TrainingArguments or of accelerate's file, whose keys begin with its name.
Result<void> read_parallelism(const ConfigNode& section, Job& job);

/// A copy of a map whose keys lack `prefix` where they began with it.
ConfigNode without_prefix(ConfigNode map, std::string_view prefix);

}  // namespace commlens::huggingface
