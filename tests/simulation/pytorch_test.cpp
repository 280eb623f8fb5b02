// docs/results/simulate_pytorch.md: simulated iterations beside those of plain PyTorch on one GPU. Written
// with COMMLENS_WRITE_RESULTS=1, else compared.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "commlens/app/simulate.hpp"
#include "commlens/base/csv.hpp"
#include "commlens/base/file.hpp"
#include "commlens/base/test_support.hpp"
#include "commlens/simulate/run_calibration.hpp"

namespace commlens {
namespace {

std::filesystem::path in_sources(const std::string& file) {
  const char* const sources = std::getenv("COMMLENS_SOURCE_DIR");
  return std::filesystem::path(sources == nullptr ? "." : sources) / file;
}

/// A run of tests/iterations/pytorch/runs.csv as a case file of torch-ddp.
std::string pytorch_case(const CsvTable& table, const CsvTable::Row& row) {
  const auto cell = [&](std::string_view column) { return table.cell(row, column); };
  const bool is_llama = cell("family") == "llama";
  const std::int64_t micro_batches = std::stoll(cell("global_batch")) / std::stoll(cell("micro_batch"));
  std::string text = fmt::format(
      "framework: torch-ddp\nranks: 1\nprecision: bf16\nmodel: {{family: {}, layers: {}, hidden: {}, heads: "
      "{}, "
      "vocab: {}, sequence: {}, ",
      cell("family"), cell("layers"), cell("hidden"), cell("heads"), cell("vocab"), cell("seq"));
  text += is_llama ? fmt::format("kv_heads: {}, head_dim: {}, ffn_hidden: {}}}\n", cell("kv_heads"),
                                 cell("head_dim"), cell("ffn"))
                   : "positions: learned}\n";
  text += fmt::format("micro_batch: {}\nmicro_batches: {}\n", cell("micro_batch"), micro_batches);
  return text + (cell("recompute") == "full" ? "trainer: {activation_checkpoint: full}\n" : "");
}

/// Which of the coefficients that the program brings a simulation may see.
std::string without_families(const std::filesystem::path& directory, const std::string& gpu) {
  RunCalibration calibration = built_in_calibration();
  std::erase_if(calibration.families,
                [&](const FamilyFit& family) { return family.name == gpu + ", torch"; });
  const std::filesystem::path file = directory / (gpu + ".json");
  write_file_atomically(file, calibration_json(calibration));
  return file;
}

struct PytorchScore {
  double sum = 0;
  double floor_sum = 0;
  int count = 0;
  int inside = 0;
};

Result<Simulation> pytorch_simulation(const std::string& file, const std::string& machine,
                                      const std::string& calibration) {
  SimulateRequest request;
  request.config = {file};
  request.machine = machine;
  request.overrides.attention = Attention::flash;
  request.calibration = calibration;
  return simulate(request).map([](const SimulatedJob& job) { return job.simulation; });
}

/// "210.3 (+4.1)"; adds to the score.
std::string against(const Simulation& found, double measured, PytorchScore& score) {
  const double seconds = found.seconds.value;
  const double error = seconds / measured - 1;
  score.sum += std::abs(error);
  score.floor_sum += std::abs(seconds * found.mfu.value / 0.4 / measured - 1);
  score.inside += found.seconds.low <= measured && measured <= found.seconds.high ? 1 : 0;
  ++score.count;
  return fmt::format("{:.1f} | {:+.1f}", 1000 * seconds, 100 * error);
}

const char* const k_pytorch_introduction =
    R"(# Simulated iterations beside plain PyTorch on one GPU

`commlens simulate CASE --attention flash` on the runs of [one H200 and one H100](gpu.md): plain PyTorch, one device, bf16. The
coefficients of one device are fitted to the closed form's times of the other (*other device*: hgx_h200 by the runs of the H100, dgx_h100
by those of the H200) or to its own (*own device*, which is what the program brings). *floor*: 40 % of the peak. Written by

```sh
COMMLENS_WRITE_RESULTS=1 build/release/tests/tests_simulation --gtest_filter='PytorchJobs.*'
```

| run | parameters | measured, ms | other device, ms | error, % | own device, ms | error, % |
|---|---|--:|--:|--:|--:|--:|
)";

struct PytorchPage {
  std::string text = k_pytorch_introduction;
  PytorchScore other;
  PytorchScore own;
};

void add_pytorch_rows(PytorchPage& page, const std::filesystem::path& directory) {
  const Result<CsvTable> table =
      read_text_file(in_sources("tests/iterations/pytorch/runs.csv"), 1 << 20).and_then(parse_csv);
  ASSERT_TRUE(table) << table.error().message;
  const std::string without_h100 = without_families(directory, "H100");
  const std::string without_h200 = without_families(directory, "H200");
  for (const CsvTable::Row& row : table->rows) {
    const bool is_h200 = table->cell(row, "gpu") == "NVIDIA H200";
    const std::string machine = is_h200 ? "hgx_h200" : "dgx_h100";
    const std::string file = directory / (table->cell(row, "id") + ".yaml");
    write_file_atomically(file, pytorch_case(*table, row));
    const Result<Simulation> other = pytorch_simulation(file, machine, is_h200 ? without_h200 : without_h100);
    const Result<Simulation> own = pytorch_simulation(file, machine, "");
    ASSERT_TRUE(other && own) << (other ? own : other).error().message;
    const double measured = std::strtod(table->cell(row, "seconds_per_iteration").c_str(), nullptr);
    page.text += fmt::format("| {} | {} | {:.1f} | ", table->cell(row, "id"), table->cell(row, "parameters"),
                             1000 * measured);
    page.text += against(*other, measured, page.other) + " | ";
    page.text += against(*own, measured, page.own) + " |\n";
  }
}

std::string score_line(const char* name, const PytorchScore& score) {
  return fmt::format("{}: mean error {:.1f} %, {} of {} in their interval.\n", name,
                     100 * score.sum / score.count, score.inside, score.count);
}

TEST(PytorchJobs, AreAsThePageSaysAndBeatTheFloor) {
  const test_support::ScratchDirectory scratch;
  PytorchPage page;
  add_pytorch_rows(page, scratch.path());
  ASSERT_EQ(page.own.count, 46);
  page.text += "\n" + score_line("Other device", page.other) + score_line("Own device", page.own);
  page.text += fmt::format("Floor: {:.1f} %.\n", 100 * page.own.floor_sum / page.own.count);
  EXPECT_LT(page.other.sum, 0.10 * page.other.count);
  EXPECT_LT(page.other.sum, 0.5 * page.other.floor_sum);
  EXPECT_GE(page.other.inside, 41);
  const std::filesystem::path file = in_sources("docs/results/simulate_pytorch.md");
  if (std::getenv("COMMLENS_WRITE_RESULTS") != nullptr) {
    write_file_atomically(file, page.text);
    return;
  }
  const Result<std::string> now = read_text_file(file, 1 << 20);
  ASSERT_TRUE(now) << now.error().message;
  EXPECT_EQ(*now, page.text) << "write it with COMMLENS_WRITE_RESULTS=1";
}

}  // namespace
}  // namespace commlens
