#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "commlens/app/output_place.hpp"
#include "commlens/app/simulate.hpp"
#include "commlens/app/simulate_rows.hpp"
#include "commlens/cli/command.hpp"
#include "commlens/cli/layout_flags.hpp"
#include "commlens/cli/number_check.hpp"
#include "commlens/frameworks/frameworks.hpp"
#include "commlens/frameworks/read_config.hpp"

namespace commlens {
namespace {

constexpr const char* k_simulate_examples = R"(Examples:
  commlens simulate 13B --ranks 64 --tp 8 --framework megatron --machine dgx_h100
  commlens simulate job.yml --machine frontier --trace out/ --format json
  commlens simulate --rows runs.csv -o times.csv
  commlens simulate --rows runs.csv --calibration mine.json -o times.csv
A row that cannot be expressed gets an empty time and the reason. docs/time-model.md has the columns.)";

struct SimulateFlags {
  SimulateRowsRequest rows;
  SimulateRequest job;
  std::string contention = "none";
  LayoutFlags layout;
  OutputFlags output;
};

Contention contention_of(const std::string& name) {
  return name == "flows" ? Contention::flows : name == "simgrid" ? Contention::simgrid : Contention::none;
}

Result<ExitCode> simulate_table(Console& console, const SimulateFlags& flags) {
  if (!flags.job.config.empty() || !flags.job.machine.empty() || flags.output.format != "table") {
    return failure(
        "--rows times the runs of a table, with the devices that it names, and writes CSV; leave out " +
        std::string(!flags.job.config.empty()    ? "CONFIG"
                    : !flags.job.machine.empty() ? "--machine"
                                                 : "--format"));
  }
  const std::vector<std::string> inputs = {flags.rows.table, flags.rows.calibration};
  if (const Result<void> usable = check_output_place(flags.output.file, inputs); !usable) {
    return tl::unexpected(usable.error());
  }
  return simulate_rows(flags.rows).map([&](const SimulatedRows& result) {
    write_result(console, flags.output, csv_of(result));
    console.err << summary_of(result);
    return ExitCode::done;
  });
}

Result<ExitCode> simulate_job(Console& console, const SimulateFlags& flags) {
  if (flags.job.config.empty() || flags.job.machine.empty()) {
    return failure(flags.job.config.empty()
                       ? "give a configuration and --machine, or a table of runs with --rows"
                       : "--machine is missing: commlens machines lists them");
  }
  std::vector<std::string> inputs = flags.job.config;
  inputs.insert(inputs.end(), {flags.job.machine, flags.rows.calibration});
  const Result<void> usable = check_output_place(flags.output.file, inputs).and_then([&] {
    return flags.job.trace.empty() ? Result<void>() : check_trace_place("--trace", flags.job.trace, inputs);
  });
  if (!usable) {
    return tl::unexpected(usable.error());
  }
  return flags.layout.single().and_then([&](const Overrides& overrides) {
    SimulateRequest request = flags.job;
    request.overrides = overrides;
    request.events = events_of(console);
    request.calibration = flags.rows.calibration;
    request.contention = contention_of(flags.contention);
    return simulate(request).map([&](const SimulatedJob& result) {
      write_rendered(console, flags.output, result);
      return ExitCode::done;
    });
  });
}

}  // namespace

Action declare_simulate(CLI::App& verb) {
  const auto flags = std::make_shared<SimulateFlags>();
  verb.footer(k_simulate_examples);
  verb.add_option("CONFIG", flags->job.config, config_kinds_text("13B"));
  verb.add_option("--framework", flags->job.framework, fmt::format("Whose rules: {}", framework_names()))
      ->type_name("NAME[@VERSION]");
  verb.add_option("--machine", flags->job.machine, "A name of commlens machines, or a machine file")
      ->type_name("NAME|FILE");
  verb.add_option("--library", flags->job.library,
                  "nccl, rccl or mpi, and its release (default: what the machine was calibrated with)")
      ->type_name("NAME[:VERSION]");
  verb.add_option("--jitter", flags->job.jitter,
                  "Standard deviation of the ranks' computing times, over their mean")
      ->check(between(0.0, 1.0))
      ->capture_default_str()
      ->type_name("SHARE");
  verb.add_flag(
      "--tensor-overlap", flags->job.overlaps_tensor,
      "Messages of tensor ranks run inside matrix products (tp-comm-overlap): they take the part that "
      "shows in measured runs");
  verb.add_option("--contention", flags->contention,
                  "flows: calls under way at the same time share the machine's links; simgrid: the same, as "
                  "SimGrid plays it, up to 256 ranks; none: each as if alone")
      ->check(CLI::IsMember({"none", "flows", "simgrid"}))
      ->capture_default_str();
  verb.add_option("--trace", flags->job.trace,
                  "Write the calls with their times as a trace directory, in place of an earlier trace")
      ->type_name("DIR");
  verb.add_option("--rows", flags->rows.table, "Training runs, one a line: model, devices, layout")
      ->type_name("TABLE.csv");
  verb.add_option("--calibration", flags->rows.calibration,
                  "What calibrate --rows has written (default: fits to published runs)")
      ->type_name("FILE.json");
  declare_output(verb, flags->output);
  flags->layout.declare(verb, LayoutFlags::Verb::predicted);
  return [flags](Console& console) {
    return flags->rows.table.empty() ? simulate_job(console, *flags) : simulate_table(console, *flags);
  };
}

}  // namespace commlens
