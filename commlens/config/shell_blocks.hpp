#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "commlens/config/shell_tokens.hpp"

namespace commlens {

/// Where the parts of a script begin and end; `at` and what is returned are positions in `tokens`.
using ShellTokens = std::span<const ShellToken>;

bool is_shell_separator(const ShellToken& token);
/// Whether the token is exactly this word.
bool is_shell_word(const ShellToken& token, std::string_view text);
/// Whether a command can begin behind this token.
bool comes_before_command(const ShellToken& token);
/// Whether an `if`, `case` or loop begins at `at`.
bool opens_shell_block(ShellTokens tokens, std::size_t at);
/// Where the block that begins at `at` is closed, by fi, esac or done; else the end.
std::size_t end_of_shell_block(ShellTokens tokens, std::size_t at);
/// The next of `words`, which are separated by spaces, between `at` and `end` that belongs to no inner block;
/// else `end`.
std::size_t next_shell_keyword(ShellTokens tokens, std::size_t at, std::size_t end, std::string_view words);
/// Whether a function is defined at `at`.
bool defines_shell_function(ShellTokens tokens, std::size_t at);
/// Past the statement at `at`: a whole block or function, or a command.
std::size_t end_of_shell_statement(ShellTokens tokens, std::size_t at);
/// "NAME", "NAME+" or "NAME[…]" before the = of an assignment; empty for other words.
std::string_view assigned_shell_name(std::string_view word);
/// The tokens on one line, cut where they are long.
std::string written_shell(ShellTokens tokens);

}  // namespace commlens
