#pragma once
#include <optional>
#include <string>

#include "commlens/app/train.hpp"
#include "commlens/cli/console.hpp"
#include "commlens/cli/progress.hpp"
#include "commlens/cli/stop_signals.hpp"

namespace commlens {

/// Shows a running training, and takes the first SIGINT or SIGTERM as a request to stop.
class TrainScreen {
 public:
  /// `is_terminal`: the error stream is shown to the user who presses Ctrl-C.
  TrainScreen(Console& console, Format format, bool is_terminal);

  TrainEvents events();
  /// Shows the end of the training; returns the exit code of the verb.
  ExitCode end(const TrainResult& result);

 private:
  void begin(const TrainRun& run, bool reports);
  void add(const engine::IterationReport& iteration);
  void write(const std::string& text);

  Console& console_;
  Format format_;
  bool is_terminal_;
  std::optional<TrainReport> report_;
  std::optional<Progress> progress_;
  std::optional<StopSignals> signals_;
};

}  // namespace commlens
