#include <chrono>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "commlens/app/launcher.hpp"
#include "commlens/app/output_place.hpp"
#include "commlens/app/tune.hpp"
#include "commlens/base/text.hpp"
#include "commlens/cli/command.hpp"
#include "commlens/cli/layout_flags.hpp"
#include "commlens/cli/number_check.hpp"
#include "commlens/cli/stop_signals.hpp"

namespace commlens {
namespace {

constexpr const char* k_tune_examples = R"(Examples:
  commlens tune --messages 1.3B --layers 2 --dp 2 --min-gain 10% --time 3
  mpirun -n 4 commlens tune --messages 19M --dp 4 --zero 3 --transport mpi --write-openmpi rules.conf
  mpirun -n 8 commlens tune --messages run --transport mpi --write-mpich rules.json --write-transports table.csv
Exit code: 0 done, with rules or without, 2 bad input, 3 a rank or the machine failed.)";

struct TuneFlags {
  LayoutFlags layout;
  std::string transport = "threads";
  std::string least_gain = "5%";
  double time_s = 1;
  std::string timeout = "10min";
  std::string launch_every = "500ms";
  TuneRequest request;
  OutputFlags output;
};

/// "5%" or "0.05".
Result<double> share_of(const std::string& text) {
  const bool is_percent = text.ends_with('%');
  return parse_number(is_percent ? text.substr(0, text.size() - 1) : text)
      .map([&](double number) { return is_percent ? number / 100 : number; })
      .map_error([&](const Error&) {
        return Error{fmt::format("--min-gain {}: write a share, as 5% or 0.05", text)};
      });
}

Result<TuneRequest> request_of_flags(const TuneFlags& flags) {
  const Result<std::chrono::nanoseconds> timeout = parse_duration(flags.timeout);
  if (!timeout) {
    return failure("--timeout: " + timeout.error().message);
  }
  const Result<std::chrono::nanoseconds> every = parse_duration(flags.launch_every);
  if (!every) {
    return failure("--launch-every: " + every.error().message);
  }
  return flags.layout.single().and_then([&](const Overrides& overrides) {
    return share_of(flags.least_gain).map([&](double least_gain) {
      TuneRequest request = flags.request;
      request.messages.overrides = overrides;
      request.transport = flags.transport == "mpi"    ? Transport::mpi
                          : flags.transport == "nccl" ? Transport::nccl
                                                      : Transport::threads;
      request.least_gain = least_gain;
      request.time = std::chrono::nanoseconds(static_cast<std::int64_t>(flags.time_s * 1e9));
      request.timeout = *timeout;
      request.launch_every = *every;
      request.stop_requested = &StopSignals::came;
      return request;
    });
  });
}

/// Ends the process of a job with a stuck thread, which cannot be ended otherwise.
[[noreturn]] void give_up_tuning(Console& console, const std::string& reason) {
  console.out << std::flush;
  console.err << "commlens: " << reason << '\n' << std::flush;
  std::_Exit(static_cast<int>(ExitCode::system_failed));
}

ExitCode show_tuning(Console& console, const TuneFlags& flags, const TuneResult& result) {
  if (result.reports) {
    write_rendered(console, flags.output, result);
  }
  if (result.tuned.was_stopped) {
    return StopSignals::first() == SIGINT ? ExitCode::interrupted : ExitCode::terminated;
  }
  return result.was_refused ? ExitCode::bad_input : ExitCode::done;
}

/// The result; over MPI one process says what is wrong, for all.
Result<ExitCode> tune_verb(Console& console, const TuneFlags& flags) {
  const bool is_another = launched_ranks() > 1 && rank_of_process() > 0;
  Result<TuneRequest> request =
      check_output_place(flags.output.file, flags.request.messages.input).and_then([&] {
        return request_of_flags(flags);
      });
  if (!request) {
    return is_another ? Result<ExitCode>(ExitCode::bad_input) : tl::unexpected(request.error());
  }
  // Under a launcher, a terminal is the launcher's; it may pass our lines on to anything.
  Console plain{console.out, console.err, {}, false};
  Console& shown = flags.transport == "threads" ? console : plain;
  const StopSignals signals(false);
  request->give_up = [&console](const std::string& reason) { give_up_tuning(console, reason); };
  request->events = is_another ? Events() : events_of(shown);
  return tune_calls(*request).map(
      [&](const TuneResult& result) { return show_tuning(shown, flags, result); });
}

void declare_launches(CLI::App& verb, TuneFlags& flags) {
  verb.add_option(
          "--launches", flags.request.launches,
          "Jobs one after the other, kept apart, to decide by: 10 say what other jobs gain; over MPI use "
          "--append")
      ->check(between(std::int64_t{1}, std::int64_t{1000}))
      ->capture_default_str()
      ->type_name("K");
  verb.add_option(
          "--launch-every", flags.launch_every,
          "From the begin of a launch to that of the next, at least: 500ms, 2s; a number alone is seconds")
      ->capture_default_str()
      ->type_name("T");
  verb.add_option("--append", flags.request.append,
                  "Write the result there too, and decide by the launches that the file has and this one")
      ->type_name("FILE");
}

void declare_rule_files(CLI::App& verb, RuleFiles& files) {
  verb.add_option("--write-openmpi", files.open_mpi,
                  "Rules for coll_tuned_dynamic_rules_filename of Open MPI")
      ->type_name("FILE");
  verb.add_option("--write-mpich", files.mpich,
                  "Rules for MPIR_CVAR_COLL_SELECTION_TUNING_JSON_FILE of MPICH 4.0")
      ->type_name("FILE");
  verb.add_option("--write-nccl", files.nccl, "Rules for NCCL's example tuner plug-in")->type_name("FILE");
  verb.add_option("--write-transports", files.transports, "A table of transports and algorithms, of commlens")
      ->type_name("FILE");
}

}  // namespace

Action declare_tune(CLI::App& verb) {
  const auto flags = std::make_shared<TuneFlags>();
  TuneRequest& request = flags->request;
  verb.footer(k_tune_examples);
  verb.add_option("--messages", request.messages.input,
                  "Whose messages: the configuration or model that is predicted, or a trace")
      ->required()
      ->type_name("CONFIG|TRACE");
  verb.add_option("--framework", request.messages.framework, "Whose rules predict a configuration")
      ->type_name("NAME[@VERSION]");
  declare_iteration(verb, request.messages.iterations, "Iterations of a trace (default: all but the first)");
  verb.add_option("--transport", flags->transport, "threads: ranks in this process; mpi: under mpirun")
      ->check(CLI::IsMember({"threads", "mpi", "nccl"}))
      ->capture_default_str();
  verb.add_option("--mpi", request.mpi, "Which MPI; default: the launcher's")
      ->check(CLI::IsMember({"openmpi", "mpich"}));
  verb.add_option("--min-gain", flags->least_gain,
                  "Least gain of a rule, of the time by the library's choice")
      ->capture_default_str()
      ->type_name("SHARE");
  verb.add_option("--time", flags->time_s, "Seconds for each message with each algorithm, at most")
      ->check(between(0.001, 86'400.0))
      ->capture_default_str()
      ->type_name("SECONDS");
  verb.add_option("--rounds", request.most_rounds,
                  "Timed rounds at most, 60 to 1,000,000, after one that connects; each makes every message "
                  "with every "
                  "algorithm")
      ->check(between(std::int64_t{60}, std::int64_t{1'000'000}))
      ->capture_default_str()
      ->type_name("N");
  verb.add_option("--timeout", flags->timeout, "Longest wait for one call, as 90s or 2h; 0: no limit")
      ->type_name("TIME")
      ->capture_default_str();
  verb.add_option("--seed", request.seed, "Of the order of calls")->capture_default_str()->type_name("N");
  declare_launches(verb, *flags);
  declare_rule_files(verb, request.files);
  declare_output(verb, flags->output);
  flags->layout.declare(verb);
  return [flags](Console& console) { return tune_verb(console, *flags); };
}

}  // namespace commlens
