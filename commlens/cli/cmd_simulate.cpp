#include <memory>

#include <CLI/CLI.hpp>

#include "commlens/app/output_place.hpp"
#include "commlens/app/simulate_rows.hpp"
#include "commlens/cli/command.hpp"

namespace commlens {
namespace {

constexpr const char* k_simulate_examples = R"(Examples:
  commlens simulate --rows runs.csv -o times.csv
  commlens calibrate --rows measured.csv -o mine.json
  commlens simulate --rows runs.csv --calibration mine.json -o times.csv
A row that cannot be expressed gets an empty time and the reason. docs/time-model.md has the columns.)";

struct SimulateFlags {
  SimulateRowsRequest request;
  std::string file = "-";
};

}  // namespace

Action declare_simulate(CLI::App& verb) {
  const auto flags = std::make_shared<SimulateFlags>();
  verb.footer(k_simulate_examples);
  verb.add_option("--rows", flags->request.table, "Training runs, one a line: model, devices, layout")
      ->required()
      ->type_name("TABLE.csv");
  verb.add_option("--calibration", flags->request.calibration,
                  "What calibrate --rows has written (default: fits to published runs)")
      ->type_name("FILE.json");
  verb.add_option("-o,--output", flags->file, "Times with intervals, one line a row (default: -)")
      ->type_name("OUT.csv");
  return [flags](Console& console) -> Result<ExitCode> {
    const std::vector<std::string> inputs = {flags->request.table, flags->request.calibration};
    if (const Result<void> usable = check_output_place(flags->file, inputs); !usable) {
      return tl::unexpected(usable.error());
    }
    return simulate_rows(flags->request).map([&](const SimulatedRows& result) {
      OutputFlags output;
      output.file = flags->file;
      write_result(console, output, csv_of(result));
      console.err << summary_of(result);
      return ExitCode::done;
    });
  };
}

}  // namespace commlens
