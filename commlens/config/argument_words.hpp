#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "commlens/base/result.hpp"

namespace commlens {

/// A word of a file of arguments, and its line.
struct ArgumentWord {
  std::string text;
  int line = 1;
};

/// The words of a text as a shell would split them, as far as argument files need it: quotes, `#` comments
/// and a backslash at a line's end are understood. `file` names it in errors. Fails for what is no text, an
/// open quote, and more words than any argument file has.
Result<std::vector<ArgumentWord>> argument_words(std::string_view file, std::string_view content);

/// The names of a text of `--name value` arguments, with underscores; empty for what is no such text. They
/// only serve to recognise its kind.
std::vector<std::string> argument_names(std::string_view content);

}  // namespace commlens
