#include <chrono>
#include <memory>
#include <utility>

#include <CLI/CLI.hpp>

#include "commlens/app/followed_job.hpp"
#include "commlens/app/hang.hpp"
#include "commlens/app/nodes_hang.hpp"
#include "commlens/app/output_place.hpp"
#include "commlens/cli/command.hpp"
#include "commlens/cli/follow_flags.hpp"

namespace commlens {
namespace {

constexpr const char* k_hang_examples = R"(Examples:
  commlens hang trace/
  commlens hang trace/ --unchanged-for 10
  commlens hang $SCRATCH/states            all nodes together (watch --publish)
  commlens hang http://n17:9464/           what a serve sees
  commlens hang /tmp/nccl_trace_rank_*
  commlens hang trace/ --format json
Exit code 1: something is stuck; 0: nothing is.)";

struct HangFlags {
  std::vector<std::string> inputs;
  std::string agents_file;
  std::string agents_token_file;
  double unchanged_for_s = 1;
  OutputFlags output;
};

/// By the states of the job's nodes, where these are meant, else from files.
Result<HangResult> hang_at(const HangFlags& flags, const Events& events) {
  constexpr double to_milliseconds = 1000;
  const std::chrono::milliseconds unchanged_for(
      static_cast<std::int64_t>(flags.unchanged_for_s * to_milliseconds));
  const std::string place = flags.inputs.size() == 1 ? flags.inputs.front() : "";
  const bool has_agents = !flags.agents_file.empty() || !flags.agents_token_file.empty();
  if (has_agents && flags.inputs.size() > 1) {
    return failure("--agents and --agents-token-file are not for files; leave these out");
  }
  if (!has_agents && (place.empty() || !is_of_nodes(place))) {
    return hang({.inputs = flags.inputs, .unchanged_for = unchanged_for, .events = events});
  }
  return followed_at({.place = place,
                      .agents_file = flags.agents_file,
                      .token_file = flags.agents_token_file,
                      .publish = {}})
      .and_then([&](WatchRequest request) {
        request.events = events;
        return hang_of_nodes(std::move(request), unchanged_for);
      });
}

Result<ExitCode> show_hang(Console& console, const HangFlags& flags) {
  return check_output_place(flags.output.file, flags.inputs)
      .and_then([&] { return hang_at(flags, events_of(console)); })
      .map([&](const HangResult& result) {
        write_rendered(console, flags.output, result);
        return result.is_stuck() ? ExitCode::differs : ExitCode::done;
      });
}

}  // namespace

Action declare_hang(CLI::App& verb) {
  const auto flags = std::make_shared<HangFlags>();
  verb.footer(k_hang_examples);
  verb.add_option(
      "TRACE", flags->inputs,
      "The directory of a recording, of a job that runs or was killed too, or PyTorch's flight "
      "recorder's dumps, one of each rank; or the directory into which a job's nodes publish their "
      "states, or the URL of a serve");
  declare_agents(verb, flags->agents_file, flags->agents_token_file, "TRACE");
  verb.add_option("--unchanged-for", flags->unchanged_for_s,
                  "Of a job that runs, take as stuck what does not move for so long (0: look once)")
      ->check(CLI::Range(0.0, 3600.0))
      ->type_name("SECONDS")
      ->capture_default_str();
  declare_output(verb, flags->output);
  return [flags](Console& console) { return show_hang(console, *flags); };
}

}  // namespace commlens
