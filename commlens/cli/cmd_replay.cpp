#include <csignal>
#include <cstdlib>
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "commlens/app/launcher.hpp"
#include "commlens/app/replay.hpp"
#include "commlens/cli/command.hpp"
#include "commlens/cli/layout_flags.hpp"
#include "commlens/cli/number_check.hpp"
#include "commlens/cli/rank_flags.hpp"

namespace commlens {
namespace {

constexpr const char* k_replay_examples = R"(Examples:
  commlens replay trace/ -o again
  commlens replay trace/ --iteration 5-9 --back-to-back --repeat 3
  mpirun -n 4 commlens replay trace/ --transport mpi --scale-compute 0.5
  commlens replay 19M --ranks 4 --zero 3 --seq 128 --vocab 256
Exit code: 0 done, 1 calls of trace and replay differ, 2 bad input, 3 a rank or the machine failed.)";

constexpr std::int64_t k_most_runs = 1'000'000;

struct ReplayFlags {
  ReplayRequest request;
  LayoutFlags layout;
  std::string iterations;
  RankFlags ranks;
  bool back_to_back = false;
  bool timed = false;
  OutputFlags output;
};

Result<ReplayRequest> replay_request_of(const ReplayFlags& flags) {
  ReplayRequest request = flags.request;
  if (const Result<void> added = flags.ranks.add_to(request); !added) {
    return tl::unexpected(added.error());
  }
  if (flags.back_to_back && flags.timed) {
    return failure("--back-to-back has no times to keep to: leave it or --timed out");
  }
  request.pacing = flags.back_to_back ? ReplayPacing::back_to_back
                   : flags.timed      ? ReplayPacing::timed
                                      : ReplayPacing::gaps;
  return iteration_range(flags.iterations).and_then([&](const std::optional<IterationRange>& range) {
    request.iterations = range;
    return flags.layout.single().map([&](Overrides overrides) {
      request.overrides = std::move(overrides);
      return request;
    });
  });
}

/// Ends the process of a replay with a stuck thread, which cannot be ended otherwise.
[[noreturn]] void give_up_replay(Console& console, const std::string& reason) {
  console.out << std::flush;
  console.err << "commlens: " << reason << '\n' << std::flush;
  std::_Exit(static_cast<int>(ExitCode::system_failed));
}

ExitCode show_replay(Console& console, const ReplayFlags& flags, const ReplayResult& result) {
  if (!result.reports) {
    return result.was_refused ? ExitCode::bad_input : ExitCode::done;
  }
  write_rendered(console, flags.output, result);
  if (!result.all_equal() && flags.output.kind() == Format::csv) {
    console.err << fmt::format("calls: {} of {} equal\n", result.equal, result.compared);
  }
  return result.all_equal() ? ExitCode::done : ExitCode::differs;
}

Result<ExitCode> replay_verb(Console& console, const ReplayFlags& flags) {
  std::signal(SIGXFSZ, SIG_IGN);  // a file above the limit is an error of the write, with one line
  Result<ReplayRequest> request = replay_request_of(flags);
  if (!request) {
    const bool is_said_elsewhere = launched_ranks() > 1 && rank_of_process() > 0;
    return is_said_elsewhere ? Result<ExitCode>(ExitCode::bad_input) : tl::unexpected(request.error());
  }
  // Under a launcher, a terminal is the launcher's; it may pass our lines on to anything.
  Console plain{console.out, console.err, {}, false};
  Console& shown = request->transport == Transport::mpi ? plain : console;
  request->give_up = [&console](const std::string& reason) { give_up_replay(console, reason); };
  request->events = events_of(shown);
  return replay(*request).map([&](const ReplayResult& result) { return show_replay(shown, flags, result); });
}

void declare_pace(CLI::App& verb, ReplayFlags& flags) {
  const char* const group =
      "When calls are issued (default: the gaps of the trace after what a rank waited for)";
  verb.add_flag("--back-to-back", flags.back_to_back, "Without gaps")->group(group);
  verb.add_flag("--timed", flags.timed, "Not before the times of the trace: open loop")->group(group);
  verb.add_option("--scale-compute", flags.request.scale_compute,
                  "Multiply the gaps, or the times of --timed")
      ->check(between(0.0, 1e6))
      ->type_name("X")
      ->group(group);
  verb.add_flag("--sleep", flags.request.sleeps, "Sleep in gaps instead of keeping a core busy")
      ->group(group);
  verb.add_flag(
          "--late-waits", flags.request.late_waits,
          "Where ranks would wait for each other, wait later for receives, as batches of a framework do")
      ->group(group);
}

}  // namespace

Action declare_replay(CLI::App& verb) {
  const auto flags = std::make_shared<ReplayFlags>();
  verb.footer(k_replay_examples);
  verb.add_option("TRACE", flags->request.trace,
                  "A native trace, a file that import reads (- is standard input), or a configuration")
      ->required();
  declare_iteration(verb, flags->iterations, "Only these (-1 is initialisation)");
  verb.add_option("--framework", flags->request.framework, "Whose rules predict a configuration")
      ->type_name("NAME[@VERSION]");
  verb.add_flag("--skip-other", flags->request.skip_other,
                "Leave out calls that no transport makes (scan, one-sided, …)");
  verb.add_option("-o,--output", flags->request.output, "Record the replay in this directory")
      ->type_name("DIR")
      ->capture_default_str();
  verb.add_option("--format", flags->output.format, "table, json or csv")
      ->check(CLI::IsMember({"table", "json", "csv"}))
      ->capture_default_str();
  declare_pace(verb, *flags);
  flags->ranks.declare(verb, false);
  verb.add_option("--repeat", flags->request.repeat, "Runs; the last one is recorded, those before warm up")
      ->check(between(std::int64_t{1}, k_most_runs))
      ->type_name("N")
      ->capture_default_str()
      ->group(RankFlags::k_group);
  flags->layout.declare(verb);
  return [flags](Console& console) { return replay_verb(console, *flags); };
}

}  // namespace commlens
