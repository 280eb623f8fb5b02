#include <csignal>
#include <cstdlib>
#include <memory>

#include <CLI/CLI.hpp>

#include "commlens/app/launcher.hpp"
#include "commlens/cli/command.hpp"
#include "commlens/cli/train_flags.hpp"
#include "commlens/cli/train_screen.hpp"

namespace commlens {
namespace {

constexpr const char* k_train_examples = R"(Examples:
  commlens train 19M --ranks 4 --zero 3 --seq 128 --vocab 256 --data book.txt
  commlens train 19M --tp 2 --pp 2 --micro-batches 4 --dtype fp32 --format json
  mpirun -n 4 commlens train 125M --tp 2 --seq 512 --transport mpi
Exit code: 0 done, 1 prediction and recording differ, 2 bad input, 3 a rank or the machine failed.)";

/// Ends the process of a job with a stuck thread, which cannot be ended otherwise.
[[noreturn]] void give_up(Console& console, const std::string& reason) {
  console.out << std::flush;
  console.err << "commlens: " << reason << '\n' << std::flush;
  std::_Exit(static_cast<int>(ExitCode::system_failed));
}

Result<ExitCode> train_verb(Console& console, const TrainFlags& flags) {
  std::signal(SIGXFSZ, SIG_IGN);  // a file above the limit is an error of the write, with one line
  Result<TrainRequest> request = request_of(flags);
  if (!request) {
    const bool is_said_elsewhere = launched_ranks() > 1 && rank_of_process() > 0;
    return is_said_elsewhere ? Result<ExitCode>(ExitCode::bad_input) : tl::unexpected(request.error());
  }
  // Under a launcher, a terminal is the launcher's; it may pass our lines on to anything.
  Console plain{console.out, console.err, {}, false};
  Console& shown = request->uses_mpi() ? plain : console;
  TrainScreen screen(shown, flags.output.kind(), console.err_is_terminal);
  request->stop_requested = &StopSignals::came;
  request->give_up = [&console](const std::string& reason) { give_up(console, reason); };
  request->train_events = screen.events();
  request->events = events_of(shown);
  return train(*request).map([&](const TrainResult& result) { return screen.end(result); });
}

}  // namespace

Action declare_train(CLI::App& verb) {
  const auto flags = std::make_shared<TrainFlags>();
  verb.footer(k_train_examples);
  flags->declare(verb);
  return [flags](Console& console) { return train_verb(console, *flags); };
}

}  // namespace commlens
