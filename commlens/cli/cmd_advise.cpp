#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "commlens/app/advise.hpp"
#include "commlens/app/output_place.hpp"
#include "commlens/app/trace_source.hpp"
#include "commlens/base/wrapped.hpp"
#include "commlens/cli/command.hpp"
#include "commlens/cli/layout_flags.hpp"

namespace commlens {
namespace {

constexpr const char* k_advise_examples = R"(Examples:
  commlens advise 1.3B --ranks 16 --zero 3 --gpu-memory 64
  commlens advise case.yaml trace/ --gpus-per-node 8
  commlens advise 13B --framework megatron --tp 8 --ranks 64 --gpus-per-node 8)";

struct AdviseFlags {
  std::vector<std::string> sources;
  std::string framework;
  LayoutFlags layout;
  double gpu_memory = 0;   // GiB
  double small_share = 1;  // percent
  std::int64_t ranks_per_node = 0;
  OutputFlags output;
};

/// The configuration files, and the trace that may stand last.
struct Sources {
  std::vector<std::string> config;
  std::optional<std::string> trace;
};

Result<Sources> sources_of(const std::vector<std::string>& arguments) {
  Sources sources;
  for (std::size_t at = 0; at < arguments.size(); ++at) {
    if (!names_trace(arguments[at])) {
      sources.config.push_back(arguments[at]);
    } else if (at + 1 < arguments.size()) {
      return failure(fmt::format("{} is a trace: it comes last, after the configuration", arguments[at]));
    } else {
      sources.trace = arguments[at];
    }
  }
  if (sources.config.empty()) {
    return failure(
        fmt::format("{} is a trace: settings are changed in a configuration; write commlens advise CONFIG {}",
                    arguments.back(), arguments.back()));
  }
  return sources;
}

AdviceOptions options_of(const AdviseFlags& flags) {
  constexpr double gib = 1024.0 * 1024 * 1024;
  AdviceOptions options;
  options.ranks_per_node = flags.ranks_per_node;
  options.small_share = flags.small_share / 100;
  if (flags.gpu_memory > 0) {
    options.memory = Bytes{static_cast<std::int64_t>(flags.gpu_memory * gib)};
  }
  return options;
}

Result<ExitCode> advise_verb(Console& console, const AdviseFlags& flags) {
  if (const Result<void> usable = check_output_place(flags.output.file, flags.sources); !usable) {
    return tl::unexpected(usable.error());
  }
  const Result<Sources> sources = sources_of(flags.sources);
  if (!sources) {
    return tl::unexpected(sources.error());
  }
  const Result<Overrides> overrides = flags.layout.single();
  if (!overrides) {
    return tl::unexpected(overrides.error());
  }
  const AdviseRequest request{sources->config, sources->trace,    flags.framework,
                              *overrides,      options_of(flags), events_of(console)};
  return advise(request).map([&](const AdviseResult& result) {
    write_rendered(console, flags.output, result);
    return ExitCode::done;
  });
}

}  // namespace

Action declare_advise(CLI::App& verb) {
  const auto flags = std::make_shared<AdviseFlags>();
  verb.footer(k_advise_examples);
  verb.add_option(
          "CONFIG", flags->sources,
          "A configuration as predict takes it, and then, if there is one, a trace of that job: its times "
          "decide what a call costs")
      ->type_name("CONFIG… [TRACE]")
      ->required();
  verb.add_option("--framework", flags->framework, "Whose rules: " + advised_framework_names())
      ->type_name("NAME");
  verb.add_option("--gpus-per-node", flags->ranks_per_node, "Judge what leaves a node")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 30))
      ->type_name("N");
  verb.add_option("--gpu-memory", flags->gpu_memory, "Memory of one GPU that the job may fill")
      ->check(CLI::Range(0.001, 1e6))
      ->type_name("GiB");
  verb.add_option("--small-share", flags->small_share,
                  "Leave small messages alone below this share of the calls' time, or number without times")
      ->check(CLI::Range(0.0, 100.0))
      ->type_name("PERCENT")
      ->capture_default_str();
  declare_output(verb, flags->output);
  flags->layout.declare(verb);
  return [flags](Console& console) { return advise_verb(console, *flags); };
}

}  // namespace commlens
