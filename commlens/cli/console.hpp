#pragma once
#include <functional>
#include <ostream>
#include <string>
#include <string_view>

#include "commlens/app/events.hpp"
#include "commlens/app/format.hpp"
#include "commlens/base/result.hpp"
#include "commlens/base/table.hpp"
#include "commlens/formats/io/sink.hpp"

namespace commlens {

/// The output streams of a command and their style: results go to `out`, progress and warnings to `err`.
struct Console {
  std::ostream& out;
  std::ostream& err;
  TextStyle style;               // of `out`
  bool err_is_terminal = false;  // then progress is shown
};

/// Exit codes of every verb (README.md). interrupted and terminated: `train` stopped by SIGINT or SIGTERM,
/// and all was written (128 + the signal, as shells report it).
enum class ExitCode : int {
  done = 0,
  differs = 1,
  bad_input = 2,
  system_failed = 3,
  interrupted = 130,
  terminated = 143
};

/// --format and -o.
struct OutputFlags {
  std::string format = "table";
  std::string file = "-";
  Format kind() const {
    return format == "json" ? Format::json : format == "csv" ? Format::csv : Format::table;
  }
};

/// The style of output to `flags`: that of the console for standard output; plain and unlimited in width for
/// a file.
TextStyle style_for(const Console& console, const OutputFlags& flags);

/// Writes a result to standard output or to a file, which is written completely or not at all. Throws
/// SystemError on failure.
void write_result(Console& console, const OutputFlags& flags, std::string_view text);

/// Writes the result of a verb in the requested format.
template <typename Found>
void write_rendered(Console& console, const OutputFlags& flags, const Found& found) {
  write_result(console, flags, rendered(found, flags.kind(), style_for(console, flags)));
}

/// Writes to standard output. Throws SystemError on failure.
void write_out(Console& console, std::string_view text);

/// Runs `write` on standard output for "-" (a closed pipe ends the process), else as try_write_stream does: a
/// file is written completely or not at all. Throws SystemError on failure.
Result<void> try_write_blocks(Console& console, const std::string& file,
                              const std::function<Result<void>(const formats::TextSink&)>& write);

/// Warnings and the progress of long work, on `err`. `console` outlives them.
Events events_of(Console& console);

/// One line on `err`: "commlens: warning: …".
void warn(Console& console, std::string_view message);

}  // namespace commlens
