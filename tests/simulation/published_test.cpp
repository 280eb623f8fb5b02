// docs/results/simulate_torchtitan.md: simulated iterations beside throughput that torchtitan's authors have
// published. Written with COMMLENS_WRITE_RESULTS=1, else compared.
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "commlens/app/simulate.hpp"
#include "commlens/base/file.hpp"

namespace commlens {
namespace {

/// A published run: tokens a second of a device, without and with torch.compile.
struct PublishedRun {
  std::string model;
  std::string machine;
  std::int64_t devices = 0;
  std::int64_t tensor = 1;
  std::int64_t micro_batch = 1;
  Recompute recompute = Recompute::selective;
  double eager = 0;
  double compiled = 0;  // 0: not published
  std::string source;
};

const std::vector<PublishedRun>& published_runs() {
  static const std::string h100 = "benchmarks/llama3_h100_202412_torchtitan.md";
  static const std::string asynchronous = "benchmarks/asyncTP_llama3_h100_2025-06_torchtitan.md";
  static const std::string earlier = "docs/performance.md of 2024";
  static const std::vector<PublishedRun> runs = {
      {"llama3-8b", "dgx_h100", 8, 1, 2, Recompute::selective, 5762, 6667, h100},
      {"llama3-8b", "dgx_h100", 128, 1, 2, Recompute::selective, 5605, 6514, h100},
      {"llama3-8b", "dgx_h100", 64, 8, 12, Recompute::selective, 0, 4378, asynchronous},
      {"llama3-70b", "dgx_h100", 256, 8, 16, Recompute::full, 0, 597.3, asynchronous},
      {"llama3-405b", "dgx_h100", 128, 8, 2, Recompute::full, 109, 0, earlier},
      {"llama3-8b", "dgx_a100", 64, 1, 1, Recompute::selective, 2973, 0, earlier},
      {"llama3-70b", "dgx_a100", 64, 1, 1, Recompute::full, 331, 0, earlier}};
  return runs;
}

Result<Simulation> simulation_of(const PublishedRun& run) {
  SimulateRequest request;
  request.config = {run.model};
  request.machine = run.machine;
  request.framework = "torchtitan";
  request.overrides.ranks = run.devices;
  request.overrides.tp = run.tensor;
  request.overrides.micro_batch = run.micro_batch;
  request.overrides.recompute = run.recompute;
  return simulate(request).map([](const SimulatedJob& job) { return job.simulation; });
}

struct PublishedScore {
  double sum = 0;
  double floor_sum = 0;
  int count = 0;
};

/// A row; adds its error, and that of 40 % of the peak, to the score.
std::string line_of(const PublishedRun& run, const Simulation& found, PublishedScore& score) {
  const double measured = run.eager > 0 ? run.eager : run.compiled;
  const double error = found.tokens_per_second.value / measured - 1;
  score.sum += std::abs(error);
  score.floor_sum += std::abs(found.tokens_per_second.value * 0.4 / found.mfu.value / measured - 1);
  ++score.count;
  const auto shown = [](double value) { return value > 0 ? fmt::format("{:.0f}", value) : std::string("-"); };
  return fmt::format("| {} | {} {} | {} | {} | {} | {} | {} | {:.0f} ({:.0f} to {:.0f}) | {:+.1f} | {} |\n",
                     run.model, run.devices, run.machine, run.tensor, run.micro_batch,
                     run.recompute == Recompute::full ? "full" : "selective", shown(run.eager),
                     shown(run.compiled), found.tokens_per_second.value, found.tokens_per_second.low,
                     found.tokens_per_second.high, 100 * error, run.source);
}

const char* const k_published_introduction =
    R"(# Simulated iterations beside torchtitan's published throughput

`commlens simulate MODEL --framework torchtitan` on runs that its authors have published (pytorch/torchtitan, BSD-3;
sequence 8,192, bf16, FSDP2). Nothing is fitted to them: kernels are by runs of another FSDP trainer on the device, hence
intervals of 1.35. Their H100 have another memory (2.4 TB/s) and 500 W; the 405B run was not compiled. Written by

```sh
COMMLENS_WRITE_RESULTS=1 build/release/tests/tests_simulation --gtest_filter='PublishedJobs.*'
```

Tokens a second of a device. error: to the run without `torch.compile` where there is one, since the trainer whose runs were
fitted did not compile.

| model | devices | tp | micro-batch | recompute | eager | compiled | simulated | error, % | source |
|---|---|--:|--:|---|--:|--:|--:|--:|---|
)";

struct PublishedPage {
  std::string text = k_published_introduction;
  PublishedScore score;
  int inside = 0;
};

PublishedPage published_page() {
  PublishedPage page;
  for (const PublishedRun& run : published_runs()) {
    const Result<Simulation> found = simulation_of(run);
    EXPECT_TRUE(found) << run.model << ": " << (found ? "" : found.error().message);
    if (found) {
      page.text += line_of(run, *found, page.score);
      const double measured = run.eager > 0 ? run.eager : run.compiled;
      page.inside +=
          found->tokens_per_second.low <= measured && measured <= found->tokens_per_second.high ? 1 : 0;
    }
  }
  page.text += fmt::format(
      "\nMean absolute error {:.1f} %; 40 % of the peak is off by {:.1f} % on the same rows. {} of {} are in "
      "their "
      "interval.\n",
      100 * page.score.sum / page.score.count, 100 * page.score.floor_sum / page.score.count, page.inside,
      page.score.count);
  return page;
}

TEST(PublishedJobs, OfTorchtitanAreAsThePageSaysAndBeatTheFloor) {
  const PublishedPage page = published_page();
  const char* const directory = std::getenv("COMMLENS_SOURCE_DIR");
  const std::filesystem::path file =
      std::filesystem::path(directory == nullptr ? "." : directory) / "docs/results/simulate_torchtitan.md";
  EXPECT_LT(page.score.sum, 0.6 * page.score.floor_sum);
  EXPECT_GE(page.inside, 6);
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
