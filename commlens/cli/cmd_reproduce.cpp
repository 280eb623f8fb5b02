#include <csignal>
#include <memory>

#include <CLI/CLI.hpp>

#include "commlens/app/reproduce.hpp"
#include "commlens/cli/command.hpp"
#include "commlens/cli/stop_signals.hpp"

namespace commlens {
namespace {

constexpr const char* k_reproduce_examples = R"(Examples:
  commlens reproduce -o paper
  commlens reproduce --full -o paper
  commlens reproduce --no-train --format json -o paper
DIR/index.html is one page that needs nothing else; DIR/paper.md the same as text; DIR/figures has the data.)";

struct ReproduceFlags {
  std::string directory = "paper";
  std::string format = "table";
  bool is_quick = false;
  bool is_full = false;
  bool trains_nothing = false;
};

Result<ExitCode> reproduce_verb(Console& console, const ReproduceFlags& flags) {
  const StopSignals signals(true);
  const OutputFlags output{.format = flags.format};
  ReproduceRequest request;
  request.directory = flags.directory;
  request.effort = flags.trains_nothing ? ReproduceRequest::Effort::none
                   : flags.is_full      ? ReproduceRequest::Effort::full
                                        : ReproduceRequest::Effort::quick;
  request.stop_requested = &StopSignals::came;
  request.events = events_of(console);
  return reproduce(request).map([&](const ReproduceResult& result) {
    write_rendered(console, output, result);
    return !result.stopped                   ? ExitCode::done
           : StopSignals::first() == SIGTERM ? ExitCode::terminated
                                             : ExitCode::interrupted;
  });
}

}  // namespace

Action declare_reproduce(CLI::App& verb) {
  const auto flags = std::make_shared<ReproduceFlags>();
  verb.footer(k_reproduce_examples);
  CLI::Option* const quick =
      verb.add_flag("--quick", flags->is_quick, "Train narrow models for seconds (the default)");
  CLI::Option* const full = verb.add_flag(
      "--full", flags->is_full, "Train 19M and 125M themselves on eight ranks, for up to 40 minutes");
  CLI::Option* const none = verb.add_flag("--no-train", flags->trains_nothing,
                                          "Train nothing: theory, simulations, recordings of others");
  quick->excludes(full)->excludes(none);
  full->excludes(none);
  verb.add_option("-o,--output", flags->directory, "Write page and figures into this directory")
      ->type_name("DIR")
      ->capture_default_str();
  verb.add_option("--format", flags->format, "How the takeaways are shown")
      ->check(CLI::IsMember({"table", "json", "csv"}))
      ->capture_default_str();
  return [flags](Console& console) { return reproduce_verb(console, *flags); };
}

}  // namespace commlens
