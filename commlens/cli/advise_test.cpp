// `advise` and `compare --regression` from the command line.
#include <filesystem>
#include <fstream>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "commlens/base/test_support.hpp"
#include "commlens/cli/test_support.hpp"

namespace commlens {
namespace {

using test_support::Outcome;
using test_support::run_with;

/// Temporary files of a test.
class Advise : public testing::Test {
 protected:
  std::string written(const std::string& name, const std::string& text) const {
    return directory_.write(name, text);
  }

  /// One all_reduce of 2 KiB in each of `iterations` iterations of two ranks, `length` ns and a bit more each
  /// time.
  std::string recorded(const std::string& name, int iterations, int length, int bytes = 2048) const {
    std::string text;
    for (int rank = 0; rank < 2; ++rank) {
      for (int iteration = 0; iteration < iterations; ++iteration) {
        text += fmt::format(
            "{{\"rank\":{},\"iteration\":{},\"op\":\"all_reduce\",\"dtype\":\"fp32\",\"input_bytes\":{},"
            "\"output_bytes\":{},\"group\":[0,1],\"phase\":\"backward\",\"start_ns\":{},\"duration_ns\":{}}}"
            "\n",
            rank, iteration, bytes, bytes, iteration * 100000, length + iteration);
      }
    }
    return written(name, text);
  }

 private:
  test_support::ScratchDirectory directory_;
};

constexpr const char* k_zero3 = R"(framework: deepspeed
framework_version: "0.14.0"
ranks: 4
precision: fp32
model: {family: gpt, layers: 4, hidden: 128, heads: 4, sequence: 32, vocab: 1000, positions: learned}
micro_batch: 2
deepspeed:
  zero_optimization: {stage: 3, stage3_param_persistence_threshold: 200, reduce_bucket_size: 2000000}
)";

// 26 gathers of single parameters less (advice/topic_messages_test.cpp).
TEST_F(Advise, NamesTheSettingAndWhatItSaves) {
  const std::string file = written("case.yaml", k_zero3);
  const Outcome done = run_with({"advise", file, "--format", "json"});
  ASSERT_EQ(done.code, ExitCode::done) << done.err;
  const auto json = nlohmann::json::parse(done.out);
  EXPECT_EQ(json["schema"], "commlens.advise/2");
  EXPECT_EQ(json["cost"]["per_rank"]["calls"], 29);
  const auto& first = json["recommendations"].at(0);
  EXPECT_EQ(first["id"], "persistence_threshold");
  EXPECT_EQ(first["calls_saved_per_rank"], 26);
  EXPECT_EQ(first["wire_bytes_saved_per_rank"], 0);
  EXPECT_TRUE(first["time_saved_ns"].is_null());
  const Outcome text = run_with({"advise", file});
  EXPECT_NE(text.out.find("calls -26 (-90 %), wire as many"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("stage3_param_persistence_threshold: 0 in the DeepSpeed JSON"), std::string::npos);
  const Outcome csv = run_with({"advise", file, "--format", "csv"});
  EXPECT_NE(csv.out.find("persistence_threshold,"), std::string::npos);
}

TEST_F(Advise, SaysWhenThereIsNothingToAdvise) {
  const std::string file = written(
      "case.yaml",
      "framework: torch-ddp\nranks: 1\nprecision: fp32\n"
      "model: {family: gpt, layers: 2, hidden: 64, heads: 4, sequence: 32, vocab: 256}\nmicro_batch: 1\n");
  const Outcome done = run_with({"advise", file});
  ASSERT_EQ(done.code, ExitCode::done) << done.err;
  EXPECT_NE(done.out.find("nothing to advise"), std::string::npos) << done.out;
}

TEST_F(Advise, SaysWhetherTheTraceIsOfThisJob) {
  const std::string file = written("case.yaml", k_zero3);
  const Outcome other = run_with({"advise", file, recorded("run.jsonl", 3, 1000)});
  ASSERT_EQ(other.code, ExitCode::done) << other.err;
  EXPECT_NE(other.out.find("its calls differ from the prediction"), std::string::npos) << other.out;
}

TEST_F(Advise, RefusesWhatItCannotChange) {
  const std::string trace = recorded("run.jsonl", 3, 1000);
  for (const auto& [arguments, why] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"advise", trace}, "settings are changed in a configuration"},
           {{"advise", trace, "19M"}, "it comes last, after the configuration"},
           {{"advise", "19M", "--framework", "paper", "--ranks", "4"}, "nothing can be advised"},
           {{"advise", "19M", "--zero", "1,2"}, "only predict sweeps"},
           {{"advise", "19M", "--gpu-memory", "0"}, "--gpu-memory"}}) {
    const Outcome refused = run_with(arguments);
    EXPECT_EQ(refused.code, ExitCode::bad_input) << refused.out;
    EXPECT_NE(refused.err.find(why), std::string::npos) << refused.err;
  }
}

TEST_F(Advise, RegressionExitsWithOneWhenBIsSlower) {
  const std::string a = recorded("a.jsonl", 15, 10'000);
  const std::string b = recorded("b.jsonl", 15, 11'000);
  const Outcome slower = run_with({"compare", a, b, "--regression"});
  EXPECT_EQ(slower.code, ExitCode::differs) << slower.out << slower.err;
  EXPECT_NE(slower.out.find("regression: 1 of 2 rows"), std::string::npos) << slower.out;
  EXPECT_EQ(run_with({"compare", b, a, "--regression"}).code, ExitCode::done);
  EXPECT_EQ(run_with({"compare", a, b, "--regression", "--tolerance", "15%"}).code, ExitCode::done);
  EXPECT_EQ(run_with({"compare", a, b, "--regression", "--tolerance", "0.05"}).code, ExitCode::differs);
  const auto json =
      nlohmann::json::parse(run_with({"compare", a, b, "--regression", "--format", "json"}).out);
  EXPECT_EQ(json["schema"], "commlens.compare_regression/2");
  EXPECT_EQ(json["regressed"], true);
  EXPECT_EQ(json["rows"].size(), 2u);
}

// Names of files are bytes; JSON is UTF-8, with U+FFFD for what is not.
TEST_F(Advise, NamesThatAreNotUtf8MakeValidJson) {
  const std::string trace = recorded("a\xff.jsonl", 4, 1000);
  const std::string config = written("\xff.yaml", k_zero3);
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"compare", trace, trace},
                                             {"compare", config, trace},
                                             {"compare", trace, trace, "--regression"},
                                             {"advise", config, trace}}) {
    std::vector<std::string> all = arguments;
    all.insert(all.end(), {"--format", "json"});
    const Outcome done = run_with(all);
    EXPECT_TRUE(done.code == ExitCode::done || done.code == ExitCode::differs)
        << arguments.front() << ": " << done.err;
    EXPECT_TRUE(nlohmann::json::accept(done.out)) << done.out;
    EXPECT_NE(done.out.find("\xef\xbf\xbd"), std::string::npos) << done.out;
  }
}

TEST_F(Advise, RegressionRefusesFlagsThatChooseCallsAndTheHelpDoesNotRepeatIt) {
  const std::string a = recorded("a.jsonl", 4, 1000);
  for (const std::vector<std::string>& flag :
       std::vector<std::vector<std::string>>{{"--order"},
                                             {"--tp", "2"},
                                             {"--iteration", "0-"},
                                             {"--iterations", "0-"},
                                             {"--framework", "paper"}}) {
    for (const bool before : {true, false}) {
      std::vector<std::string> words = {"compare", a, a};
      words.insert(words.end(), flag.begin(), flag.end());
      words.insert(before ? words.begin() + 3 : words.end(), "--regression");
      const Outcome refused = run_with(words);
      EXPECT_EQ(refused.code, ExitCode::bad_input) << flag.front();
      EXPECT_NE(refused.err.find("--regression excludes " + flag.front()), std::string::npos) << refused.err;
    }
  }
  EXPECT_EQ(run_with({"compare", "--help"}).out.find("xcludes"), std::string::npos);
}

TEST_F(Advise, RegressionRefusesWhatHasNoTimesAndOtherJobs) {
  const std::string a = recorded("a.jsonl", 4, 1000);
  for (const auto& [arguments, why] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"compare", a, "19M", "--regression"}, "is a configuration, which has no times"},
           {{"compare", a, recorded("b.jsonl", 4, 1000, 4096), "--regression"}, "not the same job"},
           {{"compare", a, a, "--regression", "--tolerance", "fast"}, "--tolerance fast"},
           {{"compare", a, a, "--regression", "--order"}, "--order"},
           {{"compare", a, a, "--metric", "p95"}, "--regression"}}) {
    const Outcome refused = run_with(arguments);
    EXPECT_EQ(refused.code, ExitCode::bad_input) << refused.out;
    EXPECT_NE(refused.err.find(why), std::string::npos) << refused.err;
  }
}

}  // namespace
}  // namespace commlens
