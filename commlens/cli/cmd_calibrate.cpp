#include <algorithm>
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "commlens/app/calibrate.hpp"
#include "commlens/app/calibrate_products.hpp"
#include "commlens/app/output_place.hpp"
#include "commlens/app/simulate_rows.hpp"
#include "commlens/base/file.hpp"
#include "commlens/cli/command.hpp"
#include "commlens/cli/number_check.hpp"
#include "commlens/frameworks/frameworks.hpp"
#include "commlens/machine/machine_reader.hpp"

namespace commlens {
namespace {

constexpr const char* k_calibrate_examples = R"(Examples:
  commlens calibrate nccl_perf.csv -o mine.json
  commlens calibrate all_reduce_perf.log --machine dgx_h100 --library nccl:2.27.3 -o mine.json
  commlens calibrate first.csv --machine gb200_nvl72 --shape-from hgx_b200 --held-out second.csv -o mine.json
  commlens calibrate gemm.csv --machine dgx_a100 -o mine.json
  commlens calibrate --from-training rank0.pt.trace.json.gz --machine dgx_h100 -o mine.json
  commlens calibrate --from-training trace --config job.yaml --machine dgx_h100 -o mine.json
  commlens calibrate --rows runs.csv --ids fitted.txt -o mine.json
The residuals of every operation, algorithm and protocol, or of the products' form, are shown.)";

struct CalibrateFlags {
  CalibrateRequest request;
  CalibrateRowsRequest rows;
  CalibrateProductsRequest products;  // training: its files
  std::string file;
  OutputFlags output;  // of the residuals
};

/// A flag, whether it was given, and of what it is.
struct ModeFlag {
  const char* name;
  bool is_given;
  const char* what;
};

/// Fails where a flag was given that another way to calibrate has.
Result<void> check_mode(const char* mode, std::initializer_list<ModeFlag> others) {
  for (const ModeFlag& flag : others) {
    if (flag.is_given) {
      return failure(fmt::format("{} is for {}, not for {}; leave it out", flag.name, flag.what, mode));
    }
  }
  return {};
}

/// Flags that only sweeps have.
Result<void> check_no_sweep_flags(const CalibrateFlags& flags, const char* mode) {
  constexpr const char* sweeps = "sweeps of collectives";
  const CalibrateRequest& request = flags.request;
  return check_mode(mode, {{"--library", !request.library.empty(), sweeps},
                           {"--gpus-per-node", request.ranks_per_node > 0, sweeps},
                           {"--shape-from", !request.shape_from.empty(), sweeps}});
}

Result<void> check_flags_of_rows(const CalibrateFlags& flags) {
  constexpr const char* mode = "--rows";
  return check_no_sweep_flags(flags, mode).and_then([&] {
    return check_mode(mode, {{"--machine", !flags.request.machine.empty(), "sweeps and matrix products"},
                             {"--held-out", !flags.request.held_out.empty(), "sweeps and matrix products"},
                             {"--multiprocessors", flags.products.processors > 0, "matrix products"}});
  });
}

Result<void> check_flags_of_products(const CalibrateFlags& flags, bool is_training) {
  const char* const mode = is_training ? "--from-training" : "matrix products";
  return check_no_sweep_flags(flags, mode).and_then([&] {
    return check_mode(mode, {{"--held-out", is_training && !flags.request.held_out.empty(),
                              "sweeps and tables of matrix products"}});
  });
}

Result<ExitCode> calibrated_rows(const CalibrateFlags& flags, Console& console) {
  const std::vector<std::string> inputs = {flags.rows.table, flags.rows.ids};
  if (const Result<void> usable = check_output_place(flags.file, inputs); !usable) {
    return tl::unexpected(usable.error());
  }
  CalibrateRowsRequest asked = flags.rows;
  asked.source = flags.request.source;
  asked.events = events_of(console);
  return calibrate_rows(asked).map([&](const CalibratedRows& result) {
    OutputFlags file;
    file.file = flags.file;
    write_result(console, file, calibration_json(result.calibration));
    if (flags.file != "-") {
      write_rendered(console, flags.output, result);
    }
    return ExitCode::done;
  });
}

Result<ExitCode> calibrated_products_of(const CalibrateFlags& flags, Console& console) {
  CalibrateProductsRequest asked = flags.products;
  const bool is_training = !asked.files.empty();
  asked.files = is_training ? asked.files : flags.request.files;
  asked.held_out = flags.request.held_out;
  asked.machine = flags.request.machine;
  asked.source = flags.request.source;
  asked.events = events_of(console);
  std::vector<std::string> inputs = asked.files;
  inputs.insert(inputs.end(), asked.held_out.begin(), asked.held_out.end());
  return check_output_place(flags.file, inputs)
      .and_then([&] { return is_training ? calibrate_from_training(asked) : calibrate_products(asked); })
      .map([&](const CalibratedProducts& result) {
        OutputFlags machine_file;
        machine_file.file = flags.file;
        write_result(console, machine_file, machine_json(result.machine));
        if (flags.file != "-") {
          write_rendered(console, flags.output, result);
        }
        return ExitCode::done;
      });
}

void declare_products(CLI::App& verb, CalibrateProductsRequest& products) {
  verb.add_option("--from-training", products.files,
                  "Fit matrix products to traces of a training: of torch.profiler with shapes; else, with "
                  "--config, to the iterations' times")
      ->excludes("FILES")
      ->excludes("--rows")
      ->type_name("FILE|DIR");
  verb.add_option("--config", products.config, "Of the training, as simulate takes it")
      ->needs("--from-training")
      ->type_name("CONFIG");
  verb.add_option("--framework", products.framework,
                  fmt::format("Whose rules the training follows: {}", framework_names()))
      ->needs("--from-training")
      ->type_name("NAME[@VERSION]");
  verb.add_option("--multiprocessors", products.processors,
                  "Of the device (default: as the machine or the list of known devices has it)")
      ->check(between(std::int64_t{1}, std::int64_t{4096}))
      ->type_name("K");
}

}  // namespace

Action declare_calibrate(CLI::App& verb) {
  const auto flags = std::make_shared<CalibrateFlags>();
  CalibrateRequest& request = flags->request;
  verb.footer(k_calibrate_examples);
  verb.add_option("FILES", request.files,
                  "Sweeps or matrix products (docs/machines.md), output of nccl-tests, rccl-tests or the OSU "
                  "benchmarks");
  verb.add_option("--rows", flags->rows.table,
                  "Fit iteration times of training runs instead: one run a line (docs/time-model.md)")
      ->excludes("FILES")
      ->type_name("TABLE.csv");
  verb.add_option("--ids", flags->rows.ids, "Fit these rows alone: a file with one id a line")
      ->needs("--rows")
      ->type_name("FILE");
  verb.add_option("-o,--output", flags->file, "The file to write: of the machine, or of the runs' families")
      ->required()
      ->type_name("FILE.json");
  verb.add_option("--machine", request.machine, "Start from this one (default: the one that the files name)")
      ->type_name("NAME|FILE");
  verb.add_option("--library", request.library,
                  "What was measured, where the files do not say (default: nccl; rccl on AMD)")
      ->type_name("NAME[:VERSION]");
  const CLI::Option* const per_node =
      verb.add_option("--gpus-per-node", request.ranks_per_node,
                      "Of outputs that do not say (default: as many as a node has)")
          ->check(between(std::int64_t{1}, std::int64_t{1} << 16))
          ->type_name("N");
  declare_former_name(verb.add_option("--ranks-per-node", request.ranks_per_node)
                          ->check(between(std::int64_t{1}, std::int64_t{1} << 16)),
                      per_node);
  verb.add_option("--shape-from", request.shape_from,
                  "Take the dependence on the number of ranks from this machine")
      ->type_name("NAME|FILE");
  verb.add_option("--held-out", request.held_out, "Predict the rows of these files instead of fitting them")
      ->type_name("FILE");
  declare_products(verb, flags->products);
  verb.add_option("--source", request.source,
                  "Where the numbers come from, for the machine file (default: the files)")
      ->type_name("TEXT");
  verb.add_option("--format", flags->output.format, "Format of the residuals")
      ->check(CLI::IsMember({"table", "json", "csv"}))
      ->capture_default_str();
  return [flags](Console& console) -> Result<ExitCode> {
    if (!flags->rows.table.empty()) {
      return check_flags_of_rows(*flags).and_then([&] { return calibrated_rows(*flags, console); });
    }
    const std::vector<std::string>& files = flags->request.files;
    const bool is_training = !flags->products.files.empty();
    if (is_training || std::any_of(files.begin(), files.end(), names_product_table)) {
      return check_flags_of_products(*flags, is_training).and_then([&] {
        return calibrated_products_of(*flags, console);
      });
    }
    if (const Result<void> checked =
            check_mode("sweeps of collectives",
                       {{"--multiprocessors", flags->products.processors > 0, "matrix products"}});
        !checked) {
      return tl::unexpected(checked.error());
    }
    std::vector<std::string> inputs = flags->request.files;
    inputs.insert(inputs.end(), flags->request.held_out.begin(), flags->request.held_out.end());
    if (const Result<void> usable = check_output_place(flags->file, inputs); !usable) {
      return tl::unexpected(usable.error());
    }
    CalibrateRequest asked = flags->request;
    asked.events = events_of(console);
    return calibrate(asked).map([&](const CalibrateResult& result) {
      OutputFlags machine_file;
      machine_file.file = flags->file;
      write_result(console, machine_file, machine_json(result.machine));
      if (flags->file != "-") {
        write_rendered(console, flags->output, result);
      }
      return ExitCode::done;
    });
  };
}

}  // namespace commlens
