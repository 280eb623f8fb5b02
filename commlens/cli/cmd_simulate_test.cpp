#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "commlens/base/file.hpp"
#include "commlens/base/test_support.hpp"
#include "commlens/base/text.hpp"
#include "commlens/cli/test_support.hpp"

namespace commlens {
namespace {

using test_support::Outcome;
using test_support::run_with;
using test_support::ScratchDirectory;

constexpr const char* k_runs =
    "id,layers,hidden,heads,ffn,vocab,seq,gpu,gpus,dp_kind,micro_batch,global_batch,recompute,precision,"
    "framework,"
    "seconds_per_iteration\n"
    "one,24,2048,16,8192,50000,2048,H100,8,fsdp,8,64,none,bf16,composer FSDP,0.55\n"
    "two,24,2048,16,8192,50000,2048,H100,8,fsdp,16,128,none,bf16,composer FSDP,1.05\n"
    "three,24,2048,16,8192,50000,,H100,8,fsdp,16,128,none,bf16,composer FSDP,1\n";

TEST(Simulate, WritesATimeOrAReasonForEveryRow) {
  const ScratchDirectory directory;
  const std::string table = directory.write("runs.csv", k_runs);
  const std::string out = directory.path("times.csv");
  const Outcome result = run_with({"simulate", "--rows", table, "-o", out});
  EXPECT_EQ(result.code, ExitCode::done) << result.err;
  EXPECT_NE(result.err.find("2 of 3 rows have a time"), std::string::npos) << result.err;
  const std::string times = read_text_file(out, 1 << 20).value_or("");
  EXPECT_TRUE(times.starts_with(
      "id,seconds_per_iteration,low,high,mfu,memory_bytes,provenance,reason,mfu_low,mfu_high,"
      "memory_low,memory_high\none,"));
  EXPECT_NE(times.find("\nthree,,,,,,,seq is not stated,,,,\n"), std::string::npos) << times;
}

TEST(Simulate, TakesWhatCalibrateHasWritten) {
  const ScratchDirectory directory;
  const std::string table = directory.write(
      "runs.csv",
      k_runs + std::string("four,24,2048,16,8192,50000,2048,H100,8,fsdp,4,32,none,bf16,composer "
                           "FSDP,0.3\n"
                           "five,24,2048,16,8192,50000,2048,H100,8,fsdp,32,256,none,bf16,composer "
                           "FSDP,2.05\n"));
  const std::string ids = directory.write("ids.txt", "one\nfour\nfive\n");
  const std::string fit = directory.path("mine.json");
  const Outcome fitted = run_with({"calibrate", "--rows", table, "--ids", ids, "-o", fit});
  EXPECT_EQ(fitted.code, ExitCode::done) << fitted.err;
  EXPECT_NE(fitted.out.find("held out"), std::string::npos) << fitted.out;
  const Outcome result = run_with({"simulate", "--rows", table, "--calibration", fit});
  EXPECT_EQ(result.code, ExitCode::done) << result.err;
  EXPECT_NE(result.out.find("calibrated on 3 runs of H100, fsdp"), std::string::npos) << result.out;
}

TEST(CalibrateRows, RefusesWhatTheRunsCannotSupport) {
  const ScratchDirectory directory;
  const auto refusal = [&](const std::string& table) {
    const Outcome outcome = run_with(
        {"calibrate", "--rows", directory.write("runs.csv", table), "-o", directory.path("mine.json")});
    EXPECT_EQ(outcome.code, ExitCode::bad_input) << outcome.out;
    return outcome.err.substr(outcome.err.rfind("commlens: ", outcome.err.size() - 2));
  };
  EXPECT_EQ(refusal(k_runs), "commlens: H100, fsdp: 2 measured runs, a fit needs 3\n");
  for (const char* const time : {"nan", "-1", "0", "inf", "soon"}) {
    const std::string table = replaced(k_runs, "composer FSDP,1.05", std::string("composer FSDP,") + time);
    EXPECT_EQ(refusal(table), "commlens: " + directory.path("runs.csv") + ":3: seconds_per_iteration is '" +
                                  time + "'; it must be a number above 0\n");
  }
}

TEST(Simulate, RefusesWhatItCannotRead) {
  const ScratchDirectory directory;
  const std::string table = directory.write("runs.csv", k_runs);
  const std::string ids = directory.write("ids.txt", "four\n");
  const Outcome unknown =
      run_with({"calibrate", "--rows", table, "--ids", ids, "-o", directory.path("mine.json")});
  EXPECT_EQ(unknown.code, ExitCode::bad_input);
  EXPECT_NE(unknown.err.find("--ids names 'four', which the table does not have"), std::string::npos);
  const Outcome no_fit = run_with({"simulate", "--rows", table, "--calibration", table});
  EXPECT_EQ(no_fit.code, ExitCode::bad_input);
}

std::vector<std::string> small_job(const std::vector<std::string>& more) {
  std::vector<std::string> words = {"simulate",  "1.3B",     "--ranks",        "8", "--framework", "megatron",
                                    "--machine", "dgx_h100", "--global-batch", "32"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

TEST(Simulate, WritesAsManyIterationsAsAreAskedFor) {
  const ScratchDirectory directory;
  const std::string few = directory.path("few");
  const std::string many = directory.path("many");
  const Outcome one = run_with(small_job({"--format", "json", "--trace", few}));
  const Outcome twelve = run_with(small_job({"--format", "json", "--iterations", "12", "--trace", many}));
  ASSERT_EQ(one.code, ExitCode::done) << one.err;
  ASSERT_EQ(twelve.code, ExitCode::done) << twelve.err;
  const nlohmann::json first = nlohmann::json::parse(one.out);
  const nlohmann::json all = nlohmann::json::parse(twelve.out);
  EXPECT_EQ(first["iteration_count"], 1);
  EXPECT_EQ(all["iteration_count"], 12);
  // Steady iterations are alike, to the picoseconds that times are rounded to.
  EXPECT_NEAR(all["iteration_s"]["value"].get<double>() / first["iteration_s"]["value"].get<double>(), 1,
              1e-9);
  EXPECT_EQ(all["calls"][0]["calls_per_rank"], first["calls"][0]["calls_per_rank"]);
  const Outcome summary = run_with({"summary", many, "--format", "json"});
  ASSERT_EQ(summary.code, ExitCode::done) << summary.err;
  EXPECT_EQ(nlohmann::json::parse(summary.out)["iteration_count"], 12);
  const Outcome compared = run_with({"compare", many, many, "--regression"});
  EXPECT_EQ(compared.code, ExitCode::done) << compared.err;
  const Outcome none = run_with(small_job({"--iterations", "0"}));
  EXPECT_EQ(none.code, ExitCode::bad_input);
}

TEST(Simulate, ReplacesATraceAndNothingElse) {
  const ScratchDirectory directory;
  const std::string trace = directory.path("trace");
  EXPECT_EQ(run_with(small_job({"--trace", trace})).code, ExitCode::done);
  EXPECT_EQ(run_with(small_job({"--trace", trace})).code, ExitCode::done);
  const ScratchDirectory notes;
  notes.write("text.txt", "mine");
  const Outcome refused = run_with(small_job({"--trace", notes.path().string()}));
  EXPECT_EQ(refused.code, ExitCode::bad_input);
  EXPECT_NE(refused.err.find("holds something other than a commlens trace"), std::string::npos)
      << refused.err;
  EXPECT_TRUE(refused.out.empty());
}

}  // namespace
}  // namespace commlens
