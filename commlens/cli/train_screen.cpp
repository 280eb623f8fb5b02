#include "commlens/cli/train_screen.hpp"

#include <csignal>

namespace commlens {

TrainScreen::TrainScreen(Console& console, Format format, bool is_terminal)
    : console_(console), format_(format), is_terminal_(is_terminal) {}

TrainEvents TrainScreen::events() {
  TrainEvents events;
  events.begins = [this](const TrainRun& run, bool reports) { begin(run, reports); };
  events.iteration = [this](const engine::IterationReport& iteration) { add(iteration); };
  events.ends = [this] {
    signals_.reset();
    progress_.reset();
  };
  return events;
}

void TrainScreen::begin(const TrainRun& run, bool reports) {
  if (reports) {
    report_.emplace(run, format_, console_.style);
    write(report_->begin());
    progress_.emplace(console_, "training", 0);
  }
  signals_.emplace(is_terminal_ && reports);
}

void TrainScreen::add(const engine::IterationReport& iteration) {
  write(report_->add(iteration));
  if (report_->done() == 1) {  // from here on the number of remaining iterations is known
    progress_.reset();
    progress_.emplace(console_, "training", report_->run().options.iterations - iteration.iteration - 1);
  } else {
    progress_->add(1);
  }
}

void TrainScreen::write(const std::string& text) {
  const auto now = [&] { write_result(console_, {}, text); };
  if (text.empty()) {
    return;
  }
  if (progress_) {
    progress_->above(now);
  } else {
    now();
  }
}

ExitCode TrainScreen::end(const TrainResult& result) {
  if (!result.reports) {
    return result.was_refused ? ExitCode::bad_input : ExitCode::done;
  }
  write(report_->end({result.trace, result.stopped, result.dropped, result.check, result.peak_memory}));
  if (format_ == Format::csv && result.check) {
    console_.err << verdict_line(*result.check) << '\n';
  }
  if (result.check && !result.check->all_equal()) {
    return ExitCode::differs;
  }
  // A rank that was stopped by another rank's signal has received none itself.
  return !result.stopped                  ? ExitCode::done
         : StopSignals::first() == SIGINT ? ExitCode::interrupted
                                          : ExitCode::terminated;
}

}  // namespace commlens
