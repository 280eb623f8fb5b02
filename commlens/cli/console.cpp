#include "commlens/cli/console.hpp"

#include "commlens/base/file.hpp"

namespace commlens {

TextStyle style_for(const Console& console, const OutputFlags& flags) {
  return flags.file == "-" ? console.style : TextStyle{};
}

void write_result(Console& console, const OutputFlags& flags, std::string_view text) {
  if (flags.file != "-") {
    write_file_atomically(flags.file, text);
    return;
  }
  console.out << text << std::flush;
  if (!console.out.good()) {
    throw SystemError("cannot write to standard output; is the disk full?");
  }
}

void warn(Console& console, std::string_view message) {
  console.err << "commlens: warning: " << message << '\n';
}

}  // namespace commlens
