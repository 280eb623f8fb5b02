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
  const Outcome outcome = predicted("deepspeed", "0.16.9");
  EXPECT_EQ(outcome.code, ExitCode::done);
  EXPECT_EQ(outcome.err,
            "commlens: warning: framework_version 0.16.9 is unknown; the rules of deepspeed 0.14.0, the "
            "nearest older version known, are used, unverified\n");
  EXPECT_NE(outcome.out.find("; unverified: version 0.16.9 was never recorded, the rules are those of "
                             "0.14.0, the nearest older version known\n"),
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

TEST(FrameworkVersion, TakesTheDefaultRulesForACommitThatIsNotListed) {
  EXPECT_EQ(warning("neox", "deadbeef"),
            "commlens: warning: framework_version deadbeef is unknown; the rules of neox 4bc66703 on "
            "deepspeed 0.14.0, the default version, are used, unverified\n");
}

}  // namespace
}  // namespace commlens
