#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "commlens/base/result.hpp"
#include "commlens/config/shell_values.hpp"

namespace commlens {

/// A command of a script with its words, after variables.
struct ShellCommand {
  std::vector<ShellWord> words;
  int line = 1;
  std::vector<ShellWord> outer;  // what starts the shell that runs it, as in `srun -n 8 sh -c …`
  std::string only_if;           // as written, what decides whether it runs and is not known; empty: it runs
  int only_if_line = 0;
};

/// The commands of a script in their order, and what their words hold that is not known.
struct ShellScript {
  std::vector<ShellCommand> commands;
  ShellValues values;
};

/// Reads a script as a shell would run it without arguments and in an empty environment; nothing is executed.
/// Variables and arrays with their defaults, arithmetic, conditions, `case`, `for` over known words,
/// functions, `eval` and `sh -c` are followed. What depends on a condition that is not known is marked.
/// Fails for what is no text, brackets and quotes that are never closed, and beyond the limits of any launch
/// script.
Result<ShellScript> read_shell_script(std::string_view file, std::string_view content);

}  // namespace commlens
