#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "commlens/base/result.hpp"
#include "commlens/config/tree.hpp"

namespace commlens::megatron {

/// The arguments that a document holds, in one map with today's names (use_todays_names).
struct FlatArguments {
  ConfigNode map;
  std::vector<std::string> unmodelled;  // what the form itself leaves open
};

/// Reads a map of any form that users have: the arguments themselves, with or without hyphens; `MODEL_ARGS`
/// beside `ENV_VARS` (recipes of Megatron-LM); `language_model` and `model_parallel` (--yaml-cfg); `model`
/// with `ddp`, `train` and so on (Megatron-Bridge). Variables get their values from ENV_VARS or from their
/// own defaults; one without is refused unless its argument changes no message.
Result<FlatArguments> flat_arguments(const ConfigNode& document);

/// Whether a document with these keys at its top is of one of the forms with sections.
bool has_argument_sections(const std::vector<std::string>& keys);

}  // namespace commlens::megatron
