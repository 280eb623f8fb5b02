#include <csignal>
#include <memory>
#include <utility>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "commlens/app/bench.hpp"
#include "commlens/app/calibrate.hpp"
#include "commlens/app/launcher.hpp"
#include "commlens/app/layout_options.hpp"
#include "commlens/app/output_place.hpp"
#include "commlens/cli/command.hpp"
#include "commlens/cli/layout_flags.hpp"
#include "commlens/cli/number_check.hpp"
#include "commlens/cli/rank_flags.hpp"
#include "commlens/cli/stop_signals.hpp"
#include "commlens/frameworks/frameworks.hpp"
#include "commlens/machine/machine_reader.hpp"

namespace commlens {
namespace {

constexpr const char* k_bench_examples = R"(Examples:
  commlens bench all_reduce --ranks 2 --sizes 8:1M:x8
  mpirun -n 4 commlens bench all_gather all_to_all --transport mpi --sizes 1K,100K --verify
  commlens bench --messages 19M --ranks 4 --zero 3 --json base.json --launches 10
  commlens bench --messages 19M --ranks 4 --zero 3 --launches 10 --check base.json
  commlens bench all_reduce --ranks 8 --mesh dp=4,tp=2 --groups tp,dp,tp+dp
Time is the last exit minus the first entry, on one clock; docs/benchmarking.md.
Exit code: 0 done, 1 a wrong result or slower than --check, 2 bad input, 3 a rank or the machine failed.)";

struct BenchFlags {
  BenchRequest request;
  LayoutFlags layout;
  std::string transport = "threads";
  std::string cache;
  std::string time = "1s";
  std::string launch_every = "500ms";
  std::string sweep;
  std::string fit;      // a machine file to write
  std::string machine;  // to start from
  OutputFlags output;
};

/// The request; --ranks and --dtype are layout flags, which mean the job's own without --messages.
Result<BenchRequest> bench_request_of(const BenchFlags& flags) {
  BenchRequest request = flags.request;
  request.printed_as = flags.output.format == "osu" || flags.output.format == "nccl-tests"
                           ? flags.output.format
                           : std::string();
  request.transport = flags.transport == "mpi"    ? Transport::mpi
                      : flags.transport == "nccl" ? Transport::nccl
                                                  : Transport::threads;
  if (!flags.cache.empty()) {
    request.is_cold = flags.cache == "cold";
  }
  const Result<std::chrono::nanoseconds> time = parse_duration(flags.time);
  if (!time) {
    return failure(fmt::format("--time: {}", time.error().message));
  }
  const Result<std::chrono::nanoseconds> every = parse_duration(flags.launch_every);
  if (!every) {
    return failure(fmt::format("--launch-every: {}", every.error().message));
  }
  request.time = *time;
  request.launch_every = *every;
  LayoutValues layout = flags.layout.given();
  if (const auto dtype = layout.find("--dtype"); request.messages.empty() && dtype != layout.end()) {
    request.dtypes = dtype->second;
    layout.erase(dtype);
  }
  return overrides_of(layout).and_then([&](const Overrides& overrides) -> Result<BenchRequest> {
    request.overrides = overrides;
    request.ranks = overrides.ranks.value_or(0);
    layout.erase("--ranks");
    if (request.messages.empty() && (!layout.empty() || !request.framework.empty())) {
      return failure(fmt::format("{} is of a configuration; give one with --messages",
                                 layout.empty() ? "--framework" : layout.begin()->first));
    }
    return request;
  });
}

std::string bench_output(const BenchFlags& flags, const BenchResult& result, const TextStyle& style) {
  if (flags.output.format == "osu") {
    return osu_text(result);
  }
  if (flags.output.format == "nccl-tests") {
    return nccl_tests_text(result);
  }
  return rendered(result, flags.output.kind(), style);
}

ExitCode code_of(const BenchResult& result) {
  if (result.run.was_stopped) {
    return StopSignals::first() == SIGINT ? ExitCode::interrupted : ExitCode::terminated;
  }
  return result.reports && (result.wrong_elements() > 0 || result.is_slower()) ? ExitCode::differs
                                                                               : ExitCode::done;
}

/// Fails where flags do not go together.
Result<void> check_bench_flags(const BenchFlags& flags) {
  if (!flags.fit.empty() && flags.machine.empty()) {
    return failure("--fit: name the machine to start from with --machine NAME|FILE");
  }
  if (flags.fit.empty() && !flags.machine.empty()) {
    return failure("--machine is what --fit starts from; give --fit FILE.json");
  }
  if ((!flags.sweep.empty() || !flags.fit.empty()) && flags.transport != "mpi") {
    return failure("--sweep and --fit are for times of libraries, not of threads; --transport mpi");
  }
  return {};
}

/// Fails where results could not be written.
Result<void> check_bench_files(const BenchFlags& flags) {
  const std::vector<std::string> inputs = {flags.request.check, flags.machine, flags.request.append};
  for (const auto& [flag, file] :
       {std::pair("-o", flags.output.file), {"--sweep", flags.sweep}, {"--fit", flags.fit}}) {
    if (file.empty() || file == "-") {
      continue;
    }
    const Result<void> usable = check_file_place(flag, file).and_then([&, name = flag, path = file] {
      return check_apart(name, path, inputs);
    });
    if (!usable) {
      return usable;
    }
  }
  return {};
}

/// Writes the table for calibrate, and the machine that it makes of it.
Result<void> fit_machine(Console& console, const BenchFlags& flags, const BenchResult& result) {
  if (flags.sweep.empty() && flags.fit.empty()) {
    return {};
  }
  OutputFlags sweep;
  sweep.file = flags.sweep.empty() ? flags.fit + ".csv" : flags.sweep;
  write_result(console, sweep, sweep_csv(result));
  if (flags.fit.empty()) {
    return {};
  }
  CalibrateRequest request;
  request.files = {sweep.file};
  request.machine = flags.machine;
  request.library = "mpi";
  request.events = events_of(console);
  return calibrate(request).map([&](const CalibrateResult& fitted) {
    OutputFlags machine;
    machine.file = flags.fit;
    write_result(console, machine, machine_json(fitted.machine));
    if (flags.output.format == "table" && flags.output.file == "-") {
      write_out(console, "\n" + rendered(fitted, Format::table, console.style));
    }
  });
}

Result<ExitCode> bench_verb(Console& terminal, const BenchFlags& flags) {
  // Under a launcher, a terminal is the launcher's; it may pass our lines on to anything.
  Console plain{terminal.out, terminal.err, {}, false};
  Console& console = flags.transport == "mpi" ? plain : terminal;
  const bool is_said_elsewhere = flags.transport == "mpi" && rank_of_process() > 0;
  Result<BenchRequest> request = check_bench_flags(flags).and_then([&] { return bench_request_of(flags); });
  if (!request) {
    return is_said_elsewhere ? Result<ExitCode>(ExitCode::bad_input) : tl::unexpected(request.error());
  }
  const StopSignals signals(false);
  request->stop_requested = &StopSignals::came;
  request->events = is_said_elsewhere ? Events() : events_of(console);
  request->check_places = [&flags] { return check_bench_files(flags); };
  return bench_calls(*request).and_then([&](const BenchResult& found) -> Result<ExitCode> {
    if (!found.reports) {
      return found.was_refused ? ExitCode::bad_input : code_of(found);
    }
    write_result(console, flags.output, bench_output(flags, found, style_for(console, flags.output)));
    if (!found.unwritten.empty()) {
      throw SystemError(found.unwritten);
    }
    return fit_machine(console, flags, found).map([&] { return code_of(found); });
  });
}

void declare_what(CLI::App& verb, BenchRequest& request) {
  verb.add_option(
      "OP", request.ops,
      "all_reduce, all_gather, reduce_scatter, all_to_all, broadcast (default: these), reduce, gather, "
      "scatter, all_gather_v, reduce_scatter_v, all_to_all_v, send, ping_pong, bandwidth, barrier");
  verb.add_option("--sizes", request.sizes,
                  "Message sizes in bytes: 8:64M:x2, 8:100:+4, 8,100,64K (default: 8:4M:x8)")
      ->type_name("LIST");
  verb.add_option("--messages", request.messages,
                  "Time the messages of an iteration: a configuration with its layout flags, or a trace")
      ->type_name("CONFIG|TRACE");
  verb.add_option("--framework", request.framework,
                  fmt::format("Whose rules the configuration follows: {}", framework_names()))
      ->type_name("NAME[@VERSION]");
  verb.add_option(
          "--groups", request.groups,
          "world, pairs, or axes of --mesh; tp+dp: both at once (default: world; pairs for send, ping_pong, "
          "bandwidth)")
      ->type_name("LIST");
  verb.add_option("--mesh", request.mesh, "Axes of the ranks, slowest first: dp=4,tp=2")->type_name("AXES");
  verb.add_flag("--in-place", request.in_place, "all_reduce, reduce and broadcast in one buffer");
  verb.add_flag("--verify", request.verifies,
                "Compare every element of the results, before and after, untimed");
}

void declare_how(CLI::App& verb, BenchFlags& flags) {
  BenchRequest& request = flags.request;
  verb.add_option("--transport", flags.transport,
                  "threads of this process, or mpi: under mpirun, which starts the ranks")
      ->check(CLI::IsMember({"threads", "mpi", "nccl"}))
      ->capture_default_str();
  declare_mpi(verb, request.mpi);
  declare_transports(verb, request.transports);
  verb.add_option(
          "--cache", flags.cache,
          "hot: the same buffers each time; cold: others, which have left the caches (default: hot; cold "
          "for --messages)")
      ->check(CLI::IsMember({"hot", "cold"}));
  verb.add_option("--launches", request.launches,
                  "Jobs one after the other, kept apart; over MPI use --append")
      ->check(between(std::int64_t{1}, std::int64_t{1000}))
      ->capture_default_str()
      ->type_name("K");
  verb.add_option(
          "--launch-every", flags.launch_every,
          "From the begin of a launch to that of the next, at least: launches of one moment are one. 500ms, "
          "2s; a number alone is seconds")
      ->capture_default_str()
      ->type_name("T");
  verb.add_option("--time", flags.time, "Of a row, at most; it ends before when its P50 is settled to +-5 %")
      ->capture_default_str()
      ->type_name("T");
  verb.add_option("--seed", request.seed, "Of the order of the rows, which is another in each round")
      ->type_name("S");
}

void declare_results(CLI::App& verb, BenchFlags& flags) {
  BenchRequest& request = flags.request;
  verb.add_option("--json", request.json, "Write the result there too, also while it is measured")
      ->type_name("FILE");
  verb.add_option("--append", request.append, "The same, and add to the launches that the file has")
      ->type_name("FILE");
  verb.add_option("--check", request.check,
                  "Compare the launches with those of an earlier result: exit code 1 if a row is slower")
      ->type_name("FILE");
  verb.add_option("--sweep", flags.sweep, "Write the times as a table for commlens calibrate")
      ->type_name("FILE.csv");
  verb.add_option("--fit", flags.fit,
                  "Calibrate --machine with them and write that machine file (and FILE.json.csv, the table)")
      ->type_name("FILE.json");
  verb.add_option("--machine", flags.machine, "What --fit starts from")->type_name("NAME|FILE");
  verb.add_option("--format", flags.output.format,
                  "osu, nccl-tests: as these print, for programs that read them")
      ->check(CLI::IsMember({"table", "json", "csv", "osu", "nccl-tests"}))
      ->capture_default_str();
  verb.add_option("-o,--output", flags.output.file, "Where the result goes (default: standard output)")
      ->type_name("FILE");
}

}  // namespace

Action declare_bench(CLI::App& verb) {
  const auto flags = std::make_shared<BenchFlags>();
  verb.footer(k_bench_examples);
  declare_what(verb, flags->request);
  declare_how(verb, *flags);
  declare_results(verb, *flags);
  flags->layout.declare(verb);
  return [flags](Console& console) { return bench_verb(console, *flags); };
}

}  // namespace commlens
