#include <algorithm>
#include <filesystem>
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "commlens/app/output_place.hpp"
#include "commlens/app/predict.hpp"
#include "commlens/cli/command.hpp"
#include "commlens/cli/layout_flags.hpp"
#include "commlens/frameworks/frameworks.hpp"
#include "commlens/frameworks/read_config.hpp"

namespace commlens {
namespace {

constexpr const char* k_predict_examples = R"(Examples:
  commlens predict 1.3B --ranks 16 --zero 3
  commlens predict job.yml --framework deepspeed --seq 512,1024,2048 --format csv
  commlens predict 1.3B --ranks 8 --framework neox,megatron --tp 1,2,4,8 --global-batch 64
  commlens predict case.yaml --calls calls.jsonl.gz)";

struct PredictFlags {
  std::vector<std::string> config;
  LayoutFlags layout;
  std::string framework;
  std::string iteration = "steady";
  std::string accounting = "messages";
  std::string calls;
  std::string machine;
  std::string library;
  std::optional<std::int64_t> rank;
  OutputFlags output;
};

PredictionView view_of(const PredictFlags& flags) {
  PredictionView view;
  view.iteration = flags.iteration;
  view.accounting = flags.accounting == "messages" ? Accounting::messages : Accounting::comms_logger;
  view.ranks_per_node = flags.layout.ranks_per_node();
  view.rank = rank_of(flags.rank);
  return view;
}

Result<ExitCode> predict_one(Console& console, const PredictFlags& flags, const Overrides& overrides) {
  PredictRequest request{flags.config, flags.framework, overrides, view_of(flags), events_of(console)};
  request.machine = flags.machine;
  request.library = flags.library;
  const Result<Plan> plan = plan_of(request);
  if (!plan) {
    return tl::unexpected(plan.error());
  }
  if (!flags.calls.empty()) {
    if (flags.calls != "-") {
      if (const Result<void> few = check_written_calls(*plan, request.view.rank, "--calls"); !few) {
        return tl::unexpected(few.error());
      }
    }
    const Result<void> written = try_write_blocks(console, flags.calls, [&](const formats::TextSink& sink) {
      return write_calls(*plan, request.view.rank, sink, request.events);
    });
    if (!written) {
      return tl::unexpected(written.error());
    }
  }
  if (flags.calls == "-" && flags.output.file == "-") {
    return ExitCode::done;
  }
  return predict(request, *plan).map([&](const Prediction& prediction) {
    write_rendered(console, flags.output, prediction);
    return ExitCode::done;
  });
}

Result<ExitCode> predict_sweep(Console& console, const PredictFlags& flags,
                               const std::vector<Combination>& combinations) {
  if (!flags.calls.empty() || !flags.machine.empty()) {
    return failure(flags.machine.empty() ? "--calls writes the calls of one job; give each flag one value"
                                         : "--machine times the calls of one job; give each flag one value");
  }
  const SweepRequest request{flags.config, comma_list(flags.framework), combinations, view_of(flags),
                             events_of(console)};
  return sweep(request).map([&](const Sweep& result) {
    write_rendered(console, flags.output, result);
    return ExitCode::done;
  });
}

/// Refuses two results with the same path, and a result that would overwrite the configuration.
Result<void> check_places(const PredictFlags& flags) {
  const std::string& file = flags.output.file;
  Result<void> usable =
      check_file_place("-o", file).and_then([&] { return check_apart("-o", file, flags.config); });
  if (usable && !flags.calls.empty()) {
    usable = check_file_place("--calls", flags.calls).and_then([&] {
      return check_apart("--calls", flags.calls, flags.config);
    });
  }
  if (!usable || flags.calls.empty()) {
    return usable;
  }
  if (flags.calls == "-" && file == "-" && flags.output.kind() != Format::table) {
    return failure(fmt::format("--calls - and --format {} both write to standard output; give one a file",
                               flags.output.format));
  }
  std::error_code status;
  const auto place = [&](const std::string& path) {
    return std::filesystem::weakly_canonical(std::filesystem::absolute(path, status), status);
  };
  if (flags.calls != "-" && file != "-" && place(flags.calls) == place(file)) {
    return failure(fmt::format("--calls and -o both write {}; give them different files", file));
  }
  return {};
}

Result<ExitCode> predict_verb(Console& console, const PredictFlags& flags) {
  if (const Result<void> apart = check_places(flags); !apart) {
    return tl::unexpected(apart.error());
  }
  const Result<std::vector<Combination>> combinations = flags.layout.combinations();
  if (!combinations) {
    return tl::unexpected(combinations.error());
  }
  const std::vector<std::string> frameworks = comma_list(flags.framework);
  if (frameworks.size() > 1 && std::find(frameworks.begin(), frameworks.end(), "") != frameworks.end()) {
    return failure(fmt::format("--framework {}: a name is missing", flags.framework));
  }
  return frameworks.size() * combinations->size() > 1
             ? predict_sweep(console, flags, *combinations)
             : predict_one(console, flags, combinations->front().overrides);
}

}  // namespace

Action declare_predict(CLI::App& verb) {
  const auto flags = std::make_shared<PredictFlags>();
  verb.footer(k_predict_examples);
  verb.add_option("CONFIG", flags->config, config_kinds_text("1.3B"))->required();
  verb.add_option("--framework", flags->framework,
                  fmt::format("Whose rules: {} (a comma list sweeps)", framework_names()))
      ->type_name("NAME[@VERSION]");
  verb.add_option("--iteration", flags->iteration, "Which iteration the table shows")
      ->check(CLI::IsMember({"init", "cold", "steady"}))
      ->capture_default_str();
  verb.add_option("--accounting", flags->accounting,
                  "messages, or deepspeed-logger: what its comms logger would show")
      ->check(CLI::IsMember({"messages", "deepspeed-logger"}))
      ->capture_default_str();
  verb.add_option("--machine", flags->machine,
                  "What a call takes on this machine: a name of commlens machines, or a machine file")
      ->type_name("NAME|FILE");
  verb.add_option("--library", flags->library, "With --machine: nccl, rccl or mpi, and its release")
      ->type_name("NAME[:VERSION]");
  declare_rank(verb, flags->rank);
  verb.add_option("--calls", flags->calls,
                  "Write every call as JSON Lines; - is standard output, .gz compresses")
      ->type_name("FILE");
  declare_output(verb, flags->output);
  flags->layout.declare(verb, LayoutFlags::Verb::predict);
  return [flags](Console& console) { return predict_verb(console, *flags); };
}

}  // namespace commlens
