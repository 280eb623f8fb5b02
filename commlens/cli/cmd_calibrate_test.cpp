#include <fmt/format.h>
#include <gtest/gtest.h>

#include "commlens/base/file.hpp"
#include "commlens/base/test_support.hpp"
#include "commlens/cli/test_support.hpp"

namespace commlens {
namespace {

using test_support::Outcome;
using test_support::run_with;
using test_support::ScratchDirectory;

constexpr const char* k_products =
    "m,n,k,dtype,microseconds\n4096,4096,4096,bf16,700\n4096,1024,4096,bf16,220\n4096,4096,1024,bf16,200\n"
    "8192,4096,4096,bf16,1350\n";

TEST(CalibrateProducts, WritesShapesAndAFit) {
  const ScratchDirectory directory;
  const std::string machine = directory.path("mine.json");
  const Outcome outcome = run_with(
      {"calibrate", directory.write("gemm.csv", k_products), "--machine", "dgx_h100", "-o", machine});
  EXPECT_EQ(outcome.code, ExitCode::done) << outcome.err;
  EXPECT_NE(outcome.out.find("bf16: efficiency 0."), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("132 multiprocessors; 4 shapes measured"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("one efficiency"), std::string::npos) << outcome.out;
  const std::string file = read_text_file(machine, 1 << 24).value_or("");
  EXPECT_NE(file.find("[8192,4096,4096,1350]"), std::string::npos);
  EXPECT_NE(file.find("gemm.csv, fitted to 4 products"), std::string::npos);
}

TEST(CalibrateProducts, RefusesOtherFilesAndNoMachine) {
  const ScratchDirectory directory;
  const std::string products = directory.write("gemm.csv", k_products);
  const std::string other = directory.write("other.csv", "a,b\n1,2\n");
  const std::string machine = directory.path("mine.json");
  const auto refused = [&](std::vector<std::string> words) {
    words.insert(words.begin(), "calibrate");
    words.insert(words.end(), {"-o", machine});
    const Outcome outcome = run_with(words);
    EXPECT_EQ(outcome.code, ExitCode::bad_input);
    return outcome.err;
  };
  EXPECT_NE(refused({products}).find("--machine is needed"), std::string::npos);
  EXPECT_NE(refused({products, other, "--machine", "dgx_h100"}).find("is no table of matrix products"),
            std::string::npos);
  EXPECT_NE(refused({products, products, "--machine", "dgx_h100"}).find("is given twice"), std::string::npos);
  EXPECT_NE(refused({"--from-training", other, "--machine", "dgx_h100"}).find("--config"), std::string::npos);
}

TEST(CalibrateFromTraining, TakesTheShapesOfAProfile) {
  const ScratchDirectory directory;
  std::string events;
  int op = 1;
  for (const char* const dims : {"[[4096, 4096], [4096, 4096]]", "[[4096, 1024], [1024, 4096]]",
                                 "[[4096, 4096], [4096, 1024]]", "[[8192, 4096], [4096, 4096]]"}) {
    events += fmt::format(
        R"({{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": 1, "dur": 1, "args": {{"External id": {0},
            "Input Dims": {1}, "Input type": ["c10::BFloat16", "c10::BFloat16"]}}}},
           {{"ph": "X", "cat": "kernel", "name": "gemm", "ts": 2, "dur": {2}, "args": {{"External id": {0}}}}},)",
        op, dims, 400 * op);
    ++op;
  }
  const std::string file = directory.write(
      "p.json", fmt::format(R"({{"schemaVersion": 1, "traceEvents": [{} {{"ph": "i"}}]}})", events));
  const std::string machine = directory.path("mine.json");
  const Outcome outcome =
      run_with({"calibrate", "--from-training", file, "--machine", "dgx_h100", "-o", machine});
  EXPECT_EQ(outcome.code, ExitCode::done) << outcome.err;
  const std::string text = read_text_file(machine, 1 << 24).value_or("");
  EXPECT_NE(text.find("[4096,1024,4096,1200]"), std::string::npos) << outcome.out;
}

constexpr const char* k_training_job = R"(framework: megatron
framework_version: "0.19.2"
ranks: 8
megatron:
  num-layers: 4
  hidden-size: 4096
  num-attention-heads: 32
  seq-length: 4096
  max-position-embeddings: 4096
  tokenizer-type: NullTokenizer
  vocab-size: 32000
  micro-batch-size: 1
  global-batch-size: 32
  bf16: true
  train-iters: 5
)";

/// Iterations of so many ms, from the first on.
std::string calls_of_iterations(int count, int ms) {
  std::string text;
  for (int iteration = 0; iteration < count; ++iteration) {
    text += fmt::format(
        R"({{"rank":0,"iteration":{},"op":"all_reduce","dtype":"fp32","input_bytes":4,"output_bytes":4,)"
        R"("group":[0,1],"start_ns":{},"duration_ns":10}})"
        "\n",
        iteration, std::int64_t{1'000'000} * ms * iteration);
  }
  return text;
}

TEST(CalibrateFromTraining, FindsTheEfficiencyThatGivesTheIterationsTime) {
  const ScratchDirectory directory;
  const std::string job = directory.write("job.yaml", k_training_job);
  const std::string machine = directory.path("mine.json");
  const auto fitted = [&](int count, int ms) {
    return run_with({"calibrate", "--from-training",
                     directory.write("it.jsonl", calls_of_iterations(count, ms)), "--config", job,
                     "--machine", "dgx_a100", "-o", machine});
  };
  const Outcome outcome = fitted(8, 800);
  EXPECT_EQ(outcome.code, ExitCode::done) << outcome.err;
  const Outcome simulated = run_with({"simulate", job, "--machine", machine});
  EXPECT_NE(simulated.out.find("800 ms  "), std::string::npos) << simulated.out;
  EXPECT_NE(simulated.out.find("products by the machine's gemm block (it.jsonl: 0.8 s an iteration"),
            std::string::npos)
      << simulated.out;
  EXPECT_NE(fitted(8, 1).err.find("another job or machine?"), std::string::npos);
  EXPECT_NE(fitted(3, 800).err.find("times of 1 iterations after the first; an efficiency needs 3"),
            std::string::npos);
}

}  // namespace
}  // namespace commlens
