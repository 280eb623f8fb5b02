// docs/results/simulate_jobs.md: simulated iterations beside measured ones of the same jobs. Written with
// COMMLENS_WRITE_RESULTS=1, else compared.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "commlens/app/simulate.hpp"
#include "commlens/base/csv.hpp"
#include "commlens/base/file.hpp"

namespace commlens {
namespace {

std::string from_environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// A row of the table of measured runs, by column.
class MeasuredRow {
 public:
  MeasuredRow(const CsvTable& table, const CsvTable::Row& row) : table_(table), row_(row) {}
  std::string text(std::string_view column) const { return table_.cell(row_, column); }
  /// A degree, 1 where it is not stated.
  std::string degree(std::string_view column) const { return text(column).empty() ? "1" : text(column); }
  double number(std::string_view column) const { return std::strtod(text(column).c_str(), nullptr); }
  bool has(std::string_view column, std::string_view part) const {
    return text(column).find(part) != std::string::npos;
  }

 private:
  const CsvTable& table_;
  const CsvTable::Row& row_;
};

/// Dense models of NeMo on H100 in bf16, with everything stated.
bool is_chosen(const MeasuredRow& row) {
  return row.text("strict") == "1" && row.text("framework").starts_with("NeMo") &&
         row.text("gpu_norm") == "H100" && row.text("precision") == "bf16" && row.text("n_experts").empty() &&
         !row.text("seconds_per_iteration").empty();
}

std::string recompute_lines(const MeasuredRow& row) {
  if (row.text("recompute").starts_with("full")) {
    return "  recompute-granularity: full\n  recompute-method: uniform\n  recompute-num-layers: 1\n";
  }
  return row.text("recompute").starts_with("selective") ? "  recompute-granularity: selective\n" : "";
}

/// The run as a case file of Megatron.
std::string case_of(const MeasuredRow& row) {
  std::string text = fmt::format(
      "framework: megatron\nframework_version: \"0.19.2\"\nranks: {}\nmegatron:\n  num-layers: {}\n  "
      "hidden-size: {}\n"
      "  ffn-hidden-size: {}\n  num-attention-heads: {}\n  group-query-attention: true\n  num-query-groups: "
      "{}\n"
      "  seq-length: {}\n  max-position-embeddings: {}\n  position-embedding-type: rope\n  normalization: "
      "RMSNorm\n"
      "  {}: true\n  disable-bias-linear: true\n  untie-embeddings-and-output-weights: true\n"
      "  tokenizer-type: NullTokenizer\n  vocab-size: {}\n  attention-dropout: 0.0\n  hidden-dropout: 0.0\n",
      row.text("gpus"), row.text("layers"), row.text("hidden"), row.text("ffn"), row.text("heads"),
      row.text("kv_heads").empty() ? row.text("heads") : row.text("kv_heads"), row.text("seq"),
      row.text("seq"), row.text("gated") == "1" ? "swiglu" : "squared-relu", row.text("vocab"));
  text += fmt::format(
      "  transformer-impl: transformer_engine\n  micro-batch-size: {}\n  global-batch-size: {}\n"
      "  tensor-model-parallel-size: {}\n  pipeline-model-parallel-size: {}\n  context-parallel-size: {}\n"
      "  use-distributed-optimizer: true\n  overlap-grad-reduce: true\n  overlap-param-gather: true\n  bf16: "
      "true\n"
      "  grad-reduce-in-bf16: true\n  eval-iters: 0\n  train-iters: 5\n",
      row.text("micro_batch"), row.text("global_batch"), row.degree("tp"), row.degree("pp"),
      row.degree("cp"));
  if (row.degree("vpp") != "1") {
    text += fmt::format("  num-virtual-stages-per-pipeline-rank: {}\n", row.text("vpp"));
  }
  return text + (row.degree("tp") != "1" ? "  sequence-parallel: true\n" : "") + recompute_lines(row);
}

/// Errors of the runs of one model and layout, over all their numbers of devices.
struct JobErrors {
  std::int64_t fewest = 0;
  std::int64_t most = 0;
  double seconds = 0;  // measured on the fewest
  std::string layout;
  bool hides_tensor = false;
  std::vector<double> errors;
  std::size_t inside = 0;
};

bool hides_tensor(const MeasuredRow& row) {
  return row.has("overlap", "ub_tp=true") || row.has("overlap", "ub_tp=True");
}

Result<Estimate> simulated_seconds(const MeasuredRow& row) {
  const std::filesystem::path file =
      std::filesystem::temp_directory_path() / fmt::format("commlens-{}-{}.yaml", ::getpid(), row.text("id"));
  write_file_atomically(file, case_of(row));
  SimulateRequest request;
  request.config = {file.string()};
  request.machine = "dgx_h100";
  request.overlaps_tensor = hides_tensor(row);
  const Result<SimulatedJob> job = simulate(request);
  std::filesystem::remove(file);
  return job ? Result<Estimate>(job->simulation.seconds) : tl::unexpected(job.error());
}

std::map<std::string, JobErrors> measured_jobs() {
  std::map<std::string, JobErrors> jobs;
  const std::filesystem::path file =
      std::filesystem::path(from_environment("COMMLENS_TEST_DATA")) / "facts/throughput/dev.csv";
  const Result<std::string> content = read_text_file(file, 1 << 26);
  const Result<CsvTable> table = content ? parse_csv(*content) : tl::unexpected(content.error());
  if (!table) {
    return jobs;
  }
  for (const CsvTable::Row& line : table->rows) {
    const MeasuredRow row(*table, line);
    if (!is_chosen(row)) {
      continue;
    }
    const Result<Estimate> seconds = simulated_seconds(row);
    EXPECT_TRUE(seconds) << row.text("id") << ": " << (seconds ? "" : seconds.error().message);
    if (!seconds) {
      continue;
    }
    JobErrors& job = jobs[row.text("model")];
    const auto devices = static_cast<std::int64_t>(row.number("gpus"));
    const double measured = row.number("seconds_per_iteration");
    if (job.errors.empty() || devices < job.fewest) {
      job.fewest = devices;
      job.seconds = measured;
    }
    job.most = std::max(job.most, devices);
    job.layout = fmt::format("{} x {} x {} ({}), {}", row.degree("tp"), row.degree("cp"), row.degree("pp"),
                             row.degree("vpp"), row.text("grad_accum"));
    job.hides_tensor = hides_tensor(row);
    job.errors.push_back(seconds->value / measured - 1);
    job.inside += seconds->low <= measured && measured <= seconds->high ? 1U : 0U;
  }
  return jobs;
}

double mean_error(const std::vector<double>& errors, bool signed_errors) {
  double sum = 0;
  for (const double error : errors) {
    sum += signed_errors ? error : std::abs(error);
  }
  return errors.empty() ? 0 : 100 * sum / static_cast<double>(errors.size());
}

std::string page_of(const std::map<std::string, JobErrors>& jobs) {
  std::string text =
      "# Simulated iterations beside measured ones\n\n"
      "`commlens simulate CONFIG --machine dgx_h100` on the dense bf16 runs of NeMo on H100 whose "
      "architecture, layout and\n"
      "recomputation are published (NVIDIA/dgxc-benchmarking, Apache-2.0): the plan of Megatron core 0.19.2, "
      "calls by\n"
      "NCCL's tables and the calibration of `dgx_h100`, kernels by the coefficients of the family that these "
      "runs are part\n"
      "of ([how those do on runs that they have not seen](simulate.md)). No number is fitted to the "
      "simulation. Written by\n\n"
      "```sh\nCOMMLENS_TEST_DATA=DIRECTORY COMMLENS_WRITE_RESULTS=1 build/release/tests/tests_simulation "
      "--gtest_filter='SimulatedJobs.*'\n```\n\n"
      "| model | devices | tp x cp x pp (v), micro-batches | measured, s | mean error, % | in the interval | "
      "tp hidden |\n"
      "|---|--:|---|--:|--:|--:|---|\n";
  std::vector<double> all;
  std::vector<double> shown;
  for (const auto& [model, job] : jobs) {
    text += fmt::format("| {} | {}-{} | {} | {:.2f} | {:+.1f} | {} of {} | {} |\n", model, job.fewest,
                        job.most, job.layout, job.seconds, mean_error(job.errors, true), job.inside,
                        job.errors.size(), job.hides_tensor ? "yes" : "no");
    all.insert(all.end(), job.errors.begin(), job.errors.end());
    if (!job.hides_tensor) {
      shown.insert(shown.end(), job.errors.begin(), job.errors.end());
    }
  }
  return text + fmt::format(
                    "\n{} runs: mean absolute error {:.1f} %, mean error {:+.1f} %. The {} runs without "
                    "`tp-comm-overlap`: {:.1f} % and {:+.1f} %.\nRuns with it (*tp hidden*) exchange inside "
                    "matrix products what tensor ranks "
                    "need; they are simulated with\n`--tensor-overlap`, which shows the part of each message "
                    "that the family's runs show.\n",
                    all.size(), mean_error(all, false), mean_error(all, true), shown.size(),
                    mean_error(shown, false), mean_error(shown, true));
}

TEST(SimulatedJobs, AreAsThePageSays) {
  const std::map<std::string, JobErrors> jobs = measured_jobs();
  if (jobs.empty()) {
    GTEST_SKIP() << "COMMLENS_TEST_DATA names no directory with facts/throughput";
  }
  const std::filesystem::path page =
      std::filesystem::path(from_environment("COMMLENS_SOURCE_DIR")) / "docs/results/simulate_jobs.md";
  if (!from_environment("COMMLENS_WRITE_RESULTS").empty()) {
    write_file_atomically(page, page_of(jobs));
    return;
  }
  const Result<std::string> now = read_text_file(page, 1 << 20);
  ASSERT_TRUE(now) << now.error().message;
  EXPECT_EQ(*now, page_of(jobs)) << "write it with COMMLENS_WRITE_RESULTS=1";
}

TEST(SimulatedJobs, WithoutHiddenTensorMessagesAreWithinTheirError) {
  const std::map<std::string, JobErrors> jobs = measured_jobs();
  if (jobs.empty()) {
    GTEST_SKIP() << "COMMLENS_TEST_DATA names no directory with facts/throughput";
  }
  for (const auto& [model, job] : jobs) {
    if (!job.hides_tensor) {
      EXPECT_LT(std::abs(mean_error(job.errors, true)), 10) << model;
    }
  }
}

}  // namespace
}  // namespace commlens
