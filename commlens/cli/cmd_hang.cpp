#include <memory>

#include <CLI/CLI.hpp>

#include "commlens/app/hang.hpp"
#include "commlens/app/output_place.hpp"
#include "commlens/cli/command.hpp"

namespace commlens {
namespace {

constexpr const char* k_hang_examples = R"(Examples:
  commlens hang trace/
  commlens hang trace/ --unchanged-for 10
  commlens hang /tmp/nccl_trace_rank_*
  commlens hang trace/ --format json
Exit code 1: something is stuck; 0: nothing is.)";

struct HangFlags {
  std::vector<std::string> inputs;
  double unchanged_for_s = 1;
  OutputFlags output;
};

Result<ExitCode> show_hang(Console& console, const HangFlags& flags) {
  constexpr double to_milliseconds = 1000;
  return check_output_place(flags.output.file, flags.inputs)
      .and_then([&] {
        return hang({.inputs = flags.inputs,
                     .unchanged_for = std::chrono::milliseconds(
                         static_cast<std::int64_t>(flags.unchanged_for_s * to_milliseconds)),
                     .events = events_of(console)});
      })
      .map([&](const HangResult& result) {
        write_rendered(console, flags.output, result);
        return result.is_stuck() ? ExitCode::differs : ExitCode::done;
      });
}

}  // namespace

Action declare_hang(CLI::App& verb) {
  const auto flags = std::make_shared<HangFlags>();
  verb.footer(k_hang_examples);
  verb.add_option("TRACE", flags->inputs,
                  "The directory of a recording, of a job that runs or was killed too, or PyTorch's flight "
                  "recorder's dumps, one of each rank")
      ->required();
  verb.add_option("--unchanged-for", flags->unchanged_for_s,
                  "Of a job that runs, take as stuck what does not move for so long (0: look once)")
      ->check(CLI::Range(0.0, 3600.0))
      ->type_name("SECONDS")
      ->capture_default_str();
  declare_output(verb, flags->output);
  return [flags](Console& console) { return show_hang(console, *flags); };
}

}  // namespace commlens
