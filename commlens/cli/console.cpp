#include "commlens/cli/console.hpp"

#include "commlens/base/file.hpp"
#include "commlens/formats/io/write_stream.hpp"

namespace commlens {

TextStyle style_for(const Console& console, const OutputFlags& flags) {
  return flags.file == "-" ? console.style : TextStyle{};
}

namespace {

void write_out(Console& console, std::string_view text) {
  console.out << text << std::flush;
  if (!console.out.good()) {
    throw SystemError("cannot write to standard output; is the disk full?");
  }
}

}  // namespace

void write_result(Console& console, const OutputFlags& flags, std::string_view text) {
  if (flags.file != "-") {
    write_file_atomically(flags.file, text);
    return;
  }
  write_out(console, text);
}

Result<void> try_write_blocks(Console& console, const std::string& file,
                              const std::function<Result<void>(const formats::TextSink&)>& write) {
  if (file == "-") {
    return write([&](std::string_view block) { write_out(console, block); });
  }
  return formats::try_write_stream(file, write);
}

void write_blocks(Console& console, const std::string& file,
                  const std::function<void(const formats::TextSink&)>& write) {
  if (file == "-") {
    write([&](std::string_view block) { write_out(console, block); });
    return;
  }
  formats::write_stream(file, write);
}

void warn(Console& console, std::string_view message) {
  console.err << "commlens: warning: " << message << '\n';
}

}  // namespace commlens
