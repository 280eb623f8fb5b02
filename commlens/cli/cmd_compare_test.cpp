// The hint of `compare` for sides without an equal call.
#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>
#include <unistd.h>

#include "commlens/cli/test_support.hpp"
#include "commlens/trace/trace_file.hpp"

namespace commlens {
namespace {

using test_support::Outcome;
using test_support::run_with;

class CompareSides : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(directory_); }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  /// A call list of one all_to_all of each rank, and with `common` of an all_reduce too.
  std::string calls(const std::string& name, const std::string& dtype, bool common) const {
    const std::string path = (directory_ / name).string();
    std::ofstream file(path);
    for (int rank = 0; rank < 2; ++rank) {
      file << "{\"rank\":" << rank << R"(,"iteration":0,"op":"all_to_all","dtype":")" << dtype
           << "\",\"input_bytes\":64,\"output_bytes\":64,\"group\":[0,1]}\n";
      if (common) {
        file
            << "{\"rank\":" << rank
            << R"(,"iteration":0,"op":"all_reduce","dtype":"fp32","input_bytes":4,"output_bytes":4,"group":[0,1]})"
            << '\n';
      }
    }
    return path;
  }
  /// The second line of the answer, after the verdict.
  static std::string second_line(const std::string& a, const std::string& b) {
    const Outcome outcome = run_with({"compare", a, b});
    EXPECT_EQ(outcome.code, ExitCode::differs) << a << " " << b;
    const std::size_t start = outcome.out.find('\n') + 1;
    return outcome.out.substr(start, outcome.out.find('\n', start) - start);
  }

  std::filesystem::path directory_ =
      std::filesystem::path(testing::TempDir()) / ("commlens_compare_sides." + std::to_string(getpid()));
};

TEST_F(CompareSides, WithoutACallInCommonAreAskedWhetherTheyBelongTogether) {
  const std::string a = calls("a.jsonl", "fp16", false);
  EXPECT_EQ(second_line("19M", a), "A and B have not one call in common: is B a run of this configuration?");
  EXPECT_EQ(second_line(a, "19M"), "A and B have not one call in common: is A a run of this configuration?");
  EXPECT_EQ(second_line(a, calls("b.jsonl", "int64", false)),
            "A and B have not one call in common: are they of the same job?");
}

TEST_F(CompareSides, WithOneCallInCommonAreNotAsked) {
  const std::string a = calls("a.jsonl", "fp16", true);
  EXPECT_EQ(second_line(a, calls("b.jsonl", "int64", true)).substr(0, 4), "A = ");
}

TEST_F(CompareSides, ThatLackCallsOfTheJobSaySo) {
  Trace trace;
  trace.streams.push_back({.ranks = {Rank{0}, Rank{0}}});
  trace.provenance.source = Source::recorded;
  trace.provenance.skip(std::string(k_skipped_unfinished), 1);
  write_trace(trace, directory_ / "whole");
  trace.provenance.skip(std::string(k_skipped_zeros), 128);
  write_trace(trace, directory_ / "damaged");
  const std::string whole = (directory_ / "whole").string();
  const std::string damaged = (directory_ / "damaged").string();
  const std::string warning =
      "commlens: warning: " + damaged + " lacks calls of the job: 128 calls lost, record of zeros\n";
  EXPECT_EQ(run_with({"compare", whole, damaged}).err.find(warning), 0U);
  EXPECT_EQ(run_with({"export", damaged, "--to", "calls"}).err.find(warning), 0U);
  EXPECT_EQ(run_with({"compare", whole, whole}).err.find("lacks"), std::string::npos);
}

}  // namespace
}  // namespace commlens
