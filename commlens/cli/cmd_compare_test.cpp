// The hint of `compare` for sides without an equal call.
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

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

/// A reduction of each of two ranks, of which the second one's is of `second` bytes.
std::string two_ranks(const std::string& path, int second) {
  std::ofstream file(path);
  for (const auto& [rank, bytes] : {std::pair(0, 64), std::pair(1, second)}) {
    file << R"({"rank":)" << rank << R"(,"iteration":0,"op":"all_reduce","dtype":"fp32","input_bytes":)"
         << bytes << R"(,"output_bytes":)" << bytes << R"(,"group":[0,1]})" << '\n';
  }
  return path;
}

TEST_F(CompareSides, OfOneRankAreComparedAlone) {
  const std::string a = two_ranks((directory_ / "one.jsonl").string(), 64);
  const std::string b = two_ranks((directory_ / "other.jsonl").string(), 128);
  EXPECT_EQ(run_with({"compare", a, b}).code, ExitCode::differs);
  const Outcome first = run_with({"compare", a, b, "--rank", "0"});
  EXPECT_EQ(first.code, ExitCode::done) << first.err;
  EXPECT_NE(first.out.find("equal: 1 of 1 calls (1 rank, iteration 0)\n"), std::string::npos) << first.out;
  EXPECT_NE(first.out.find("A = " + a + ": imported, calls JSON Lines, rank 0 alone\n"), std::string::npos)
      << first.out;
  EXPECT_EQ(run_with({"compare", a, b, "--rank", "1"}).code, ExitCode::differs);
  EXPECT_EQ(run_with({"compare", a, b, "--rank", "2"}).err,
            "commlens: --rank 2: " + a + " has no calls of that rank, its highest is 1\n");
}

// Rank 1 of a prediction of two stages receives; the job stays one of two ranks.
TEST_F(CompareSides, OfOneRankOfAPredictionKeepTheirJob) {
  const std::string calls = (directory_ / "calls.jsonl").string();
  ASSERT_EQ(run_with({"predict", "19M", "--ranks", "2", "--pp", "2", "--calls", calls}).code, ExitCode::done);
  const Outcome outcome = run_with({"compare", "19M", calls, "--pp", "2", "--rank", "1"});
  EXPECT_EQ(outcome.code, ExitCode::done) << outcome.out << outcome.err;
  EXPECT_NE(outcome.out.find("2 ranks, rank 1 alone"), std::string::npos) << outcome.out;
}

TEST_F(CompareSides, AreSeveralFilesWithAPlusBetween) {
  const std::string settings = (directory_ / "ds.json").string();
  std::ofstream(settings) << R"({"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 2}})";
  const std::string calls = (directory_ / "calls.jsonl").string();
  ASSERT_EQ(run_with({"predict", "19M", settings, "--ranks", "2", "--calls", calls}).code, ExitCode::done);
  EXPECT_EQ(run_with({"compare", "19M+" + settings, calls}).code, ExitCode::done);
  EXPECT_EQ(run_with({"compare", "19M", calls}).code, ExitCode::differs);
  EXPECT_EQ(run_with({"report", "19M+" + settings, "-o", (directory_ / "page.html").string()}).code,
            ExitCode::done);
  const Outcome missing = run_with({"compare", "19M+" + settings + ".none", calls});
  EXPECT_EQ(missing.code, ExitCode::bad_input);
  EXPECT_NE(missing.err.find(settings + ".none"), std::string::npos) << missing.err;
}

}  // namespace
}  // namespace commlens
