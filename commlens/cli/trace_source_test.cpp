#include "commlens/app/trace_source.hpp"

#include <filesystem>
#include <fstream>

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "commlens/cli/test_support.hpp"

namespace commlens {
namespace {

using test_support::Outcome;
using test_support::run_with;

TEST(IterationRange, ReadsOpenAndNegativeRanges) {
  const auto range = [](const char* text) { return iteration_range(text).value().value(); };
  EXPECT_EQ(range("0-9"), (IterationRange{0, 9}));
  EXPECT_EQ(range("3-"), (IterationRange{3, INT32_MAX}));
  EXPECT_EQ(range("-1-2"), (IterationRange{-1, 2}));
  EXPECT_EQ(range("-1-"), (IterationRange{-1, INT32_MAX}));
  EXPECT_EQ(range("-1"), (IterationRange{-1, -1}));
  EXPECT_EQ(range("4"), (IterationRange{4, 4}));
  EXPECT_FALSE(iteration_range("").value().has_value());
}

TEST(IterationRange, RefusesAnythingElse) {
  for (const char* text : {"-", "a", "1-b", "5-2", "-2", "-2-1", "1--3", "99999999999", "1-2-3"}) {
    EXPECT_FALSE(iteration_range(text).has_value()) << text;
  }
}

TEST(NamesTrace, PresetsAndConfigurationsAreNone) {
  EXPECT_FALSE(names_trace("1.3B"));
  EXPECT_FALSE(names_trace("no/such/file"));
  EXPECT_TRUE(names_trace("-"));
  EXPECT_TRUE(names_trace("."));
}

class TakesConfig : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(directory_); }
  void TearDown() override { std::filesystem::remove_all(directory_); }
  std::string path(const std::string& name) const { return (directory_ / name).string(); }
  std::string written(const std::string& name, std::string_view content) const {
    std::ofstream(path(name), std::ios::binary) << content;
    return path(name);
  }
  static void expect_refused(const std::string& argument, const std::string& why) {
    for (const std::vector<std::string>& verb :
         {std::vector<std::string>{"predict", argument}, {"train", argument, "-o", "no/such/directory"}}) {
      const Outcome outcome = run_with(verb);
      EXPECT_EQ(outcome.code, ExitCode::bad_input) << verb.front();
      EXPECT_EQ(outcome.err, fmt::format("commlens: {}{}\n", argument, why)) << verb.front();
    }
  }

  std::filesystem::path directory_ =
      std::filesystem::path(testing::TempDir()) / ("commlens_takes_config." + std::to_string(getpid()));
};

TEST_F(TakesConfig, ATraceIsNamedWithTheVerbThatTakesIt) {
  const std::string kineto = written(
      "g.json", R"({"schemaVersion":1,"traceEvents":[{"ph":"X","cat":"kernel","name":"k","ts":1,"dur":1}]})");
  const std::string calls = written(
      "calls.jsonl",
      R"({"rank":0,"iteration":0,"op":"barrier","dtype":"uint8","input_bytes":0,"output_bytes":0,"group":[0]})");
  ASSERT_EQ(run_with({"export", calls, "--to", "calls", "-o", path("calls.jsonl.gz")}).code, ExitCode::done);
  ASSERT_EQ(run_with({"import", calls, "-o", path("trace")}).code, ExitCode::done);
  for (const std::string& trace : {kineto, calls, path("calls.jsonl.gz"), path("trace")}) {
    expect_refused(trace, " is a trace, not a configuration; try commlens summary " + trace);
  }
  EXPECT_TRUE(check_takes_config({"1.3B", path("absent"), written("empty.yml", "")}).has_value());
}

TEST_F(TakesConfig, AConfigurationComesThroughNoPipe) {
  const std::string pipe = path("pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), S_IRUSR | S_IWUSR), 0);
  for (const std::string& argument : {std::string("-"), pipe}) {
    expect_refused(argument, ": a configuration cannot come through a pipe; name a file");
  }
}

TEST_F(TakesConfig, StandardInputIsCalledSoEverywhere) {
  const std::string calls = written(
      "calls.jsonl",
      R"({"rank":0,"iteration":0,"op":"all_reduce","dtype":"fp32","input_bytes":4,"output_bytes":4,"group":[0,1]})");
  const auto from_input = [&](const std::vector<std::string>& arguments) {
    const int before = dup(STDIN_FILENO);
    const int file = open(calls.c_str(), O_RDONLY | O_CLOEXEC);
    dup2(file, STDIN_FILENO);
    close(file);
    const std::string out = run_with(arguments).out;
    dup2(before, STDIN_FILENO);
    close(before);
    return out;
  };
  EXPECT_TRUE(from_input({"summary", "-"}).starts_with("standard input: imported"));
  EXPECT_NE(from_input({"compare", "-", calls}).find("\nA = standard input: imported"), std::string::npos);
  EXPECT_NE(from_input({"report", "-", "-o", "-"}).find("<title>Communication of standard input<"),
            std::string::npos);
  EXPECT_NE(from_input({"advise", "19M", "-", "--ranks", "2"}).find("standard input: its calls differ"),
            std::string::npos);
}

TEST(RanksOfJob, CountsGroupMembersWithoutCallsOfTheirOwn) {
  Trace trace;
  CommOp op;
  op.group = trace.groups.intern(std::vector<Rank>{Rank{0}, Rank{15}});
  trace.streams.push_back({{Rank{0}, Rank{0}}, {{trace.intern(op), 0}}, {}});
  EXPECT_EQ(ranks_of_job(trace), 16);
  EXPECT_EQ(ranks_of_job(Trace(Mesh{{Axis::pp, 2}, {Axis::dp, 3}, {Axis::tp, 4}})), 24);
  trace.provenance.job_ranks = 64;
  EXPECT_EQ(ranks_of_job(trace), 64);
}

}  // namespace
}  // namespace commlens
