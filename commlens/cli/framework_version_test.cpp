// What the command line says of a version that was not recorded.
#include <filesystem>
#include <fstream>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "commlens/cli/test_support.hpp"

namespace commlens {
namespace {

using test_support::Outcome;
using test_support::run_with;

Outcome predicted(const std::string& framework, const std::string& version) {
  const char* const test = testing::UnitTest::GetInstance()->current_test_info()->name();
  const std::filesystem::path file = std::filesystem::temp_directory_path() / fmt::format("{}.yaml", test);
  std::ofstream(file) << fmt::format(
      "framework: {}\nframework_version: \"{}\"\nranks: 2\nprecision: fp32\n"
      "model: {{layers: 2, hidden: 64, heads: 4, sequence: 16, vocab: 128}}\n",
      framework, version);
  Outcome outcome = run_with({"predict", file.string()});
  std::filesystem::remove(file);
  return outcome;
}

std::string warning(const std::string& framework, const std::string& version) {
  return predicted(framework, version).err;
}

TEST(FrameworkVersion, IsVerifiedIfItWasRecorded) {
  const Outcome outcome = predicted("deepspeed", "0.14.0+cu118");
  EXPECT_EQ(outcome.err, "");
  EXPECT_EQ(outcome.out.find("unverified"), std::string::npos) << outcome.out;
}

TEST(FrameworkVersion, TakesTheRulesOfTheNearestOlderOneAndSaysSo) {
  const Outcome outcome = predicted("deepspeed", "0.20.1");
  EXPECT_EQ(outcome.code, ExitCode::done);
  EXPECT_EQ(outcome.err,
            "commlens: warning: framework_version 0.20.1 is unknown; the rules of deepspeed 0.19.8, the "
            "nearest older version known, are used, unverified\n");
  EXPECT_NE(outcome.out.find("; unverified: version 0.20.1 was never recorded, the rules are those of "
                             "0.19.8, the nearest older version known\n"),
            std::string::npos)
      << outcome.out;
}

TEST(FrameworkVersion, TakesTheOldestRulesForOneBeforeAll) {
  EXPECT_EQ(warning("torch-ddp", "1.12.1"),
            "commlens: warning: framework_version 1.12.1 is unknown; the rules of torch-ddp 1.13, the oldest "
            "version known, are used, unverified\n");
  EXPECT_EQ(warning("deepspeed", "0.14.0rc9"),
            "commlens: warning: framework_version 0.14.0rc9 is unknown; the rules of deepspeed 0.14.0, the "
            "oldest version known, are used, unverified\n");
}

TEST(FrameworkVersion, TakesTheRulesOfItsLineWhereThePatchIsMissing) {
  EXPECT_EQ(warning("megatron", "core_v0.7"),
            "commlens: warning: framework_version core_v0.7 was never recorded; the rules of megatron "
            "core_v0.7.0 are used, unverified\n");
}

TEST(FrameworkVersion, StandsBehindTheNameOnTheCommandLine) {
  const Outcome outcome = run_with({"predict", "19M", "--dp", "2", "--framework", "torch-ddp@2.6.0"});
  EXPECT_EQ(outcome.code, ExitCode::done) << outcome.err;
  EXPECT_NE(outcome.out.find("rules: torch-ddp 2.6-2.7\n"), std::string::npos) << outcome.out;
  const Outcome empty = run_with({"predict", "19M", "--framework", "deepspeed@"});
  EXPECT_EQ(empty.code, ExitCode::bad_input);
  EXPECT_EQ(empty.err, "commlens: a version is missing after 'deepspeed@', for instance deepspeed@1.2.3\n");
}

/// What an upgrade changes for one job. 39 parameters with norms, of 4 bytes each: up to 2.9 one sum of them
/// was reduced, since 2.10 each (golden/torch_2.9 and golden/torch, tp2_fsdp2_S_clip).
TEST(FrameworkVersion, IsComparedWithAnother) {
  const std::string job = "tests/golden/torch/tp2_fsdp2_S_clip/case.yaml";
  const Outcome outcome = run_with({"compare", job, job, "--framework", "torch@2.9.1,torch@2.15.0"});
  EXPECT_EQ(outcome.code, ExitCode::differs) << outcome.err;
  EXPECT_NE(outcome.out.find("A = " + job + ": predicted by the rules of torch-fsdp 2.9, 4 ranks"),
            std::string::npos)
      << outcome.out;
  EXPECT_NE(outcome.out.find("fp32 4 B  fp32 156 B"), std::string::npos) << outcome.out;
  EXPECT_EQ(run_with({"compare", job, job, "--framework", "torch@2.15.0"}).code, ExitCode::done);
}

/// What DeepSpeed's releases change for one job: 0.19.8 sends start weights as bytes, a flag of bf16, and the
/// trace of modules in other places (golden/deepspeed_versions).
TEST(FrameworkVersion, OfDeepSpeedIsComparedWithAnother) {
  const std::string job = "tests/golden/deepspeed/z3_S_w4_fp32_p200/case.yaml";
  const Outcome outcome = run_with({"compare", job, job, "--framework", "deepspeed@0.14.0,deepspeed@0.19.8"});
  EXPECT_EQ(outcome.code, ExitCode::differs) << outcome.err;
  EXPECT_NE(outcome.out.find("predicted by the rules of deepspeed 0.19.8"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("zero3.trace_check"), std::string::npos) << outcome.out;
}

TEST(FrameworkVersion, TakesTheDefaultRulesForACommitThatIsNotListed) {
  EXPECT_EQ(warning("neox", "deadbeef"),
            "commlens: warning: framework_version deadbeef is unknown; the rules of neox 4bc66703 on "
            "deepspeed 0.14.0, the default version, are used, unverified\n");
}

}  // namespace
}  // namespace commlens
