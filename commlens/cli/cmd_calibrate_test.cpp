#include <fmt/format.h>
#include <gtest/gtest.h>

#include "commlens/base/file.hpp"
#include "commlens/base/test_support.hpp"
#include "commlens/base/text.hpp"
#include "commlens/cli/test_support.hpp"

namespace commlens {
namespace {

using test_support::Outcome;
using test_support::run_with;
using test_support::ScratchDirectory;

constexpr const char* k_products =
    "m,n,k,dtype,microseconds\n4096,4096,4096,bf16,700\n4096,1024,4096,bf16,220\n4096,4096,1024,bf16,200\n"
    "8192,4096,4096,bf16,1350\n";

/// A sweep of all_gather on 8 ranks of a machine, 10 us and 200 GB/s.
std::string sweep_of(const std::string& machine, const std::string& library = "nccl:2.29.2") {
  std::string text = "machine,library,op,ranks,nodes,ranks_per_node,dtype,bytes,time_us\n";
  for (const int mib : {1, 4, 16, 64}) {
    text += fmt::format("{},{},all_gather,8,1,8,float,{},{}\n", machine, library, mib << 20,
                        10 + mib * 1.048576 * 7 / 8 * 5);
  }
  return text;
}

TEST(CalibrateSweeps, AreOfTheMachineThatTheyName) {
  const ScratchDirectory directory;
  const std::string machine = directory.path("mine.json");
  const auto calibrated_from = [&](std::vector<std::string> words) {
    words.insert(words.begin(), "calibrate");
    words.insert(words.end(), {"-o", machine});
    return run_with(words);
  };
  const std::string h100 = directory.write("h100.csv", sweep_of("dgx_h100"));
  const std::string b200 = directory.write("b200.csv", sweep_of("NVIDIA B200"));
  const Outcome by_name = calibrated_from({h100});
  EXPECT_EQ(by_name.code, ExitCode::done) << by_name.err;
  EXPECT_EQ(by_name.out.substr(0, 8), "dgx_h100");
  const Outcome mixed = calibrated_from({h100, b200});
  EXPECT_EQ(mixed.code, ExitCode::bad_input);
  EXPECT_EQ(mixed.err, fmt::format("commlens: {}:2 is of 'dgx_h100' (dgx_h100), {}:2 of 'NVIDIA B200' "
                                   "(hgx_b200); calibrate each machine with its own times\n",
                                   h100, b200));
  EXPECT_NE(calibrated_from({b200, "--machine", "dgx_h100"}).err.find("'NVIDIA B200' (hgx_b200), not of"),
            std::string::npos);
}

TEST(CalibrateSweeps, OfNcclTestsAreOfTheDeviceInTheirList) {
  const ScratchDirectory directory;
  const std::string head =
      "#  Rank  0 Group  0 Pid  10 on       node device  0 [0000:07:00] NVIDIA H100 80GB HBM3\n"
      "#  Rank  1 Group  0 Pid  10 on       node device  1 [0000:0a:00] NVIDIA H100 80GB HBM3\n"
      "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw "
      "  "
      "busbw #wrong\n"
      "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  "
      "(GB/s)  (GB/s)\n";
  std::string rows;
  for (const int kib : {64, 1024, 16384}) {
    rows += fmt::format("{} {} float sum -1 {} 0 0 0 {} 0 0 0\n", kib * 1024, kib * 256, 10 + kib / 100,
                        10 + kib / 100);
  }
  const Outcome outcome =
      run_with({"calibrate", directory.write("all_reduce_perf.log", "# all_reduce_perf\n" + head + rows),
                "-o", directory.path("mine.json")});
  EXPECT_EQ(outcome.code, ExitCode::done) << outcome.err;
  EXPECT_EQ(outcome.out.substr(0, 8), "dgx_h100");
}

TEST(CalibrateSweeps, OfAmdDevicesAreOfRcclUnlessTheySay) {
  const ScratchDirectory directory;
  const Outcome outcome = run_with(
      {"calibrate", directory.write("s.csv", sweep_of("mi300x", "")), "-o", directory.path("mine.json")});
  EXPECT_EQ(outcome.code, ExitCode::done) << outcome.err;
  EXPECT_NE(outcome.out.find("fitted  rccl"), std::string::npos) << outcome.out;
}

TEST(CalibrateSweeps, OfMoreRanksThanANodeHasAreRefused) {
  const ScratchDirectory directory;
  const std::string sweep = directory.write("s.csv", replaced(sweep_of("dgx_h100"), ",8,1,8,", ",16,1,16,"));
  const Outcome outcome = run_with({"calibrate", sweep, "-o", directory.path("mine.json")});
  EXPECT_EQ(outcome.code, ExitCode::bad_input);
  EXPECT_EQ(outcome.err, "commlens: " + sweep + ":2: 16 ranks on a node: dgx_h100 has 8\n");
}

// One size of LL128 says little of others, but itself.
TEST(CalibrateSweeps, GiveWhatWasMeasured) {
  const ScratchDirectory directory;
  const std::string machine = directory.path("mine.json");
  ASSERT_EQ(run_with({"calibrate", directory.write("s.csv", sweep_of("dgx_h100")), "-o", machine}).code,
            ExitCode::done);
  for (const char* const size : {"1MiB", "4MiB", "16MiB", "64MiB"}) {
    const Outcome cost =
        run_with({"cost", "all_gather", "--machine", machine, "--ranks", "8", "--bytes", size});
    EXPECT_NE(cost.out.find("measured"), std::string::npos) << cost.out;
  }
}

TEST(CalibrateSweeps, OfAnAlgorithmGiveTheTimesOfIt) {
  const ScratchDirectory directory;
  const std::string machine = directory.path("mine.json");
  const Outcome outcome = run_with(
      {"calibrate", directory.write("ring.csv", sweep_of("dgx_h100", "allreduce_nccl_ring")), "-o", machine});
  EXPECT_EQ(outcome.code, ExitCode::done) << outcome.err;
  EXPECT_NE(outcome.out.find("all_gather  ring"), std::string::npos) << outcome.out;
}

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

TEST(Calibrate, RefusesFlagsOfOtherWaysToCalibrate) {
  const ScratchDirectory directory;
  const std::string products = directory.write("gemm.csv", k_products);
  const std::string sweep = directory.write("sweep.csv", sweep_of("dgx_h100"));
  const auto refused = [&](std::vector<std::string> words) {
    words.insert(words.begin(), "calibrate");
    words.insert(words.end(), {"-o", directory.path("mine.json")});
    const Outcome outcome = run_with(words);
    EXPECT_EQ(outcome.code, ExitCode::bad_input) << outcome.out;
    return outcome.err;
  };
  const std::vector<std::vector<std::string>> of_sweeps = {
      {"--library", "nccl"}, {"--gpus-per-node", "8"}, {"--shape-from", "hgx_b200"}};
  const std::vector<std::pair<std::vector<std::string>, std::string>> modes = {
      {{products, "--machine", "dgx_h100"}, "matrix products"},
      {{"--rows", products}, "--rows"},
      {{"--from-training", products, "--machine", "dgx_h100"}, "--from-training"}};
  for (const auto& [words, mode] : modes) {
    for (const std::vector<std::string>& flag : of_sweeps) {
      std::vector<std::string> all = words;
      all.insert(all.end(), flag.begin(), flag.end());
      EXPECT_EQ(refused(all),
                fmt::format("commlens: {} is for sweeps of collectives, not for {}; leave it out\n",
                            flag.front(), mode));
    }
  }
  EXPECT_EQ(refused({"--rows", products, "--machine", "dgx_h100"}),
            "commlens: --machine is for sweeps and matrix products, not for --rows; leave it out\n");
  EXPECT_EQ(
      refused({"--from-training", products, "--machine", "dgx_h100", "--held-out", products}),
      "commlens: --held-out is for sweeps and tables of matrix products, not for --from-training; leave "
      "it out\n");
  EXPECT_EQ(refused({sweep, "--multiprocessors", "132"}),
            "commlens: --multiprocessors is for matrix products, not for sweeps of collectives; leave it "
            "out\n");
  EXPECT_EQ(refused({sweep, "--gpus-per-node", "8", "--ranks-per-node", "4"}),
            "commlens: --ranks-per-node excludes --gpus-per-node; see commlens "
            "calibrate --help\n");
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

TEST(CalibrateFromTraining, KeepsWhatIsKnownOfOtherElementTypes) {
  const ScratchDirectory directory;
  const std::string first = directory.path("first.json");
  const std::string second = directory.path("second.json");
  // 19.5 TFLOP/s at most: 2 x 4,096^3 take 7,048 us at least.
  const std::string products = directory.write("fp32.csv",
                                               "m,n,k,dtype,microseconds\n4096,4096,4096,fp32,9000\n"
                                               "4096,1024,4096,fp32,2600\n4096,4096,1024,fp32,2500\n"
                                               "8192,4096,4096,fp32,17800\n");
  const std::string machine = directory.write(
      "a100.json",
      replaced(run_with({"machines", "dgx_a100"}).out, "\"peaks\": {",
               "\"peaks\": {\"fp32\": {\"value\":19.5,\"unit\":\"TFLOP/s\",\"source\":\"data sheet\","
               "\"confidence\":\"B\"},"));
  const Outcome with_fp32 = run_with({"calibrate", products, "--machine", machine, "-o", first});
  ASSERT_EQ(with_fp32.code, ExitCode::done) << with_fp32.err;
  const Outcome trained =
      run_with({"calibrate", "--from-training", directory.write("it.jsonl", calls_of_iterations(8, 800)),
                "--config", directory.write("job.yaml", k_training_job), "--machine", first, "-o", second});
  ASSERT_EQ(trained.code, ExitCode::done) << trained.err;
  const std::string file = read_text_file(second, 1 << 24).value_or("");
  EXPECT_NE(file.find("[8192,4096,4096,17800]"), std::string::npos);
  EXPECT_NE(file.find("it.jsonl: 0.8 s an iteration"), std::string::npos);
}

TEST(CalibrateFromTraining, RefusesTracesThatAreNotThereCutOrGivenTwice) {
  const ScratchDirectory directory;
  const std::string trace = directory.write("it.jsonl", calls_of_iterations(8, 800));
  const std::string cut =
      directory.write("cut.json", R"({"schemaVersion": 1, "traceEvents": [{"ph": "X", "cat": "ker)");
  const auto refusal = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"calibrate", "--from-training"});
    words.insert(words.end(), {"-o", directory.path("mine.json")});
    const Outcome outcome = run_with(words);
    EXPECT_EQ(outcome.code, ExitCode::bad_input) << outcome.out;
    return outcome.err;
  };
  EXPECT_EQ(refusal({directory.path("nothere"), "--machine", "dgx_a100"}),
            "commlens: " + directory.path("nothere") + ": no such file or directory\n");
  EXPECT_EQ(refusal({trace, trace, "--machine", "dgx_a100"}), "commlens: " + trace + ": is given twice\n");
  EXPECT_NE(refusal({cut, "--machine", "dgx_a100"}).find("cut.json"), std::string::npos);
}

TEST(CalibrateFromTraining, NeedsThePeakOfTheTrainingsType) {
  const ScratchDirectory directory;
  const std::string shown = run_with({"machines", "dgx_h100"}).out;
  const std::string other = replaced(replaced(shown, "\"bf16\": {\"value\":989", "\"fp64\": {\"value\":989"),
                                     "\"fp16\": {\"value\":989", "\"fp32\": {\"value\":989");
  ASSERT_NE(other, shown);
  const Outcome outcome =
      run_with({"calibrate", "--from-training", directory.write("it.jsonl", calls_of_iterations(8, 800)),
                "--config", directory.write("job.yaml", k_training_job), "--machine",
                directory.write("other.json", other), "-o", directory.path("mine.json")});
  EXPECT_EQ(outcome.code, ExitCode::bad_input);
  EXPECT_EQ(outcome.err,
            "commlens: machine dgx_h100: an efficiency of products in bf16 needs processor.peaks.bf16\n");
}

}  // namespace
}  // namespace commlens
