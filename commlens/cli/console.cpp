#include "commlens/cli/console.hpp"

#include <memory>
#include <optional>

#include "commlens/base/file.hpp"
#include "commlens/cli/progress.hpp"
#include "commlens/formats/io/write_stream.hpp"

namespace commlens {

TextStyle style_for(const Console& console, const OutputFlags& flags) {
  return flags.file == "-" ? console.style : TextStyle{};
}

void write_out(Console& console, std::string_view text) {
  console.out << text << std::flush;
  if (!console.out.good()) {
    throw SystemError("cannot write to standard output; is the disk full?");
  }
}

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

Events events_of(Console& console) {
  Events events;
  events.warning = [&console](const std::string& message) { warn(console, message); };
  const auto line = std::make_shared<std::optional<Progress>>();
  const auto done = std::make_shared<std::int64_t>(0);
  events.progress = [&console, line, done](const ProgressReport& report) {
    switch (report.stage) {
      case ProgressReport::Stage::begins:
        line->emplace(console, std::string(report.task), report.total);
        *done = 0;
        break;
      case ProgressReport::Stage::goes_on:
        (*line)->add(report.done - *done);
        *done = report.done;
        break;
      case ProgressReport::Stage::ends:
        line->reset();
        break;
    }
  };
  return events;
}

void warn(Console& console, std::string_view message) {
  console.err << "commlens: warning: " << message << '\n';
}

}  // namespace commlens
