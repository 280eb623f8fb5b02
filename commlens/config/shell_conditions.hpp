#pragma once
#include <cstdint>
#include <span>
#include <string_view>

#include "commlens/config/shell_tokens.hpp"
#include "commlens/config/shell_values.hpp"

namespace commlens {

/// Whether a condition of a script holds; unknown: only when it runs does it show.
enum class ShellTruth : std::uint8_t { no, yes, unknown };

/// Of the commands between `if` and `then`: tests in brackets, arithmetic, true and false, joined by && and
/// ||. Variables that nothing sets are empty, as they are for a shell. Tests of files and all other commands
/// are unknown.
ShellTruth shell_truth(std::span<const ShellToken> condition, ShellValues& values);

/// Whether a text is matched by a pattern of `case` or [[ … ]].
ShellTruth shell_match(std::string_view text, const ShellToken& pattern, ShellValues& values);

}  // namespace commlens
