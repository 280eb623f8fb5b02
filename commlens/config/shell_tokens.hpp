#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "commlens/base/result.hpp"

namespace commlens {

/// What a shell script consists of, as far as launch scripts need it.
struct ShellToken {
  enum class Kind : std::uint8_t {
    word,       // as written, with quotes and variables
    array,      // NAME=(…) or NAME+=(…): `text` is "NAME=" or "NAME+=", `elements` what stands inside
    separator,  // the end of a command: a new line, ; & | ( ) { } and so on, as written
  };
  Kind kind = Kind::word;
  std::string text;
  int line = 1;
  std::vector<ShellToken> elements;
};

/// The tokens of a script. Comments, redirections and here-documents are left out. Fails for a quote or a
/// bracket that is never closed, and beyond the limits of any launch script.
Result<std::vector<ShellToken>> shell_tokens(std::string_view file, std::string_view content, int first_line);

/// Past the end of what starts at `at` in a word as it is written: a quoted text, `…`, $(…), $((…)) or ${…};
/// the size of the text if it is never closed, `at` + 1 for anything else.
std::size_t end_of_shell_unit(std::string_view text, std::size_t at);

}  // namespace commlens
