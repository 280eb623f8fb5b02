#pragma once
#include <span>
#include <string_view>

#include "commlens/config/tree.hpp"

namespace commlens::megatron {

/// What becomes of the arguments of pretrain_gpt.py that the reader does not read, with underscores, as core
/// 0.19 names them. Lists are words with spaces between them.

/// They change no message: files, logs, data, how something is computed, inference, other models, and
/// settings of what must be switched on by another argument. Checkpoints are no part of a prediction.
std::string_view inert_arguments();
/// They can change messages and have no rules: a prediction skips them and is unverified, unless they are
/// switched off.
std::string_view unmodelled_arguments();
/// The same, for those that have another neutral value than none.
struct NeutralArgument {
  std::string_view name;
  std::string_view neutral;
};
std::span<const NeutralArgument> neutral_arguments();
/// They describe something else than what the rules know, or are gone: why, and what to do.
struct RefusedArgument {
  std::string_view name;
  std::string_view reason;
};
std::span<const RefusedArgument> refused_arguments();

/// Whether an argument takes no value on the command line.
bool takes_no_value(std::string_view argument);
/// Whether an argument of this name, as any release spells it, changes no message.
bool is_inert(std::string_view argument);

/// Gives the keys of a map the names that the arguments of 0.19 have: underscores, no leading hyphens,
/// today's names for older ones and for the fields of its configuration objects, "no_x: true" for "x: false"
/// where only a switch that turns off exists.
void use_todays_names(ConfigNode& map);

}  // namespace commlens::megatron
