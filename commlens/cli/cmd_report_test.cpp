#include <filesystem>
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "commlens/cli/test_support.hpp"
#include "commlens/trace/test_support.hpp"

namespace commlens {
namespace {

using test_support::content_of;
using test_support::ScratchDirectory;

using test_support::Outcome;

constexpr const char* k_calls =
    R"({"rank":0,"iteration":0,"op":"all_reduce","dtype":"fp16","input_bytes":2048,"output_bytes":2048,"group":[0,1],"start_ns":0,"duration_ns":500}
{"rank":1,"iteration":0,"op":"all_reduce","dtype":"fp16","input_bytes":2048,"output_bytes":2048,"group":[0,1],"start_ns":100,"duration_ns":400}
)";

constexpr const char* k_report_case =
    R"(framework: deepspeed
ranks: 2
model: {family: gpt, layers: 2, hidden: 64, heads: 4, sequence: 32, vocab: 256}
deepspeed: {train_micro_batch_size_per_gpu: 1, zero_optimization: {stage: 1}}
)";

constexpr const char* k_report_log =
    R"(Comm. Op            Message Size        Count               Total Latency(ms)   Avg Latency(ms)     tput_avg (Gbps)     busbw_avg (Gbps)
all_reduce
                    4.0 KB              3                   11.12               0.08                0.43                0.41
)";

class Report : public ::testing::Test {
 protected:
  Outcome report(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), "report");
    return test_support::run_with(arguments);
  }
  /// Writes the report of these to a file and returns the page.
  std::string page(std::vector<std::string> arguments) const {
    const std::string file = path("page.html");
    arguments.insert(arguments.end(), {"-o", file});
    const Outcome outcome = report(arguments);
    EXPECT_EQ(outcome.code, ExitCode::done) << outcome.err;
    return content_of(file);
  }
  std::string path(const std::string& name) const { return (directory_ / name).string(); }
  std::string written(const std::string& name, const std::string& text) const {
    return directory_.write(name, text);
  }
  nlohmann::json figure(const std::string& id) const {
    return nlohmann::json::parse(content_of(path("figures/" + id + ".json")));
  }

 private:
  ScratchDirectory directory_;
};

/// The values of a column of a figure's JSON.
nlohmann::json values_of(const nlohmann::json& figure, const std::string& name) {
  for (const nlohmann::json& column : figure["columns"]) {
    if (column["name"] == name) {
      return column["values"];
    }
  }
  return {};
}

TEST_F(Report, OfATraceIsAPageAndALine) {
  const std::string calls = written("calls.jsonl", k_calls);
  const Outcome outcome = report({calls, "-o", path("r.html")});
  EXPECT_EQ(outcome.code, ExitCode::done) << outcome.err;
  EXPECT_EQ(outcome.out.substr(0, path("r.html").size() + 2), path("r.html") + ": ");
  const std::string html = content_of(path("r.html"));
  EXPECT_EQ(html.substr(0, 15), "<!DOCTYPE html>");
  EXPECT_NE(html.find("all_reduce x2"), std::string::npos);
}

TEST_F(Report, WritesEveryFigureAsJsonAndCsv) {
  page({written("calls.jsonl", k_calls), "--data", path("figures")});
  const nlohmann::json index = figure("index");
  EXPECT_EQ(index["schema"], "commlens.figures/1");
  for (const nlohmann::json& entry : index["figures"]) {
    const std::string id = entry["id"];
    EXPECT_EQ(figure(id)["rows"], entry["rows"]) << id;
    EXPECT_FALSE(content_of(path("figures/" + id + ".csv")).empty()) << id;
  }
  // 2 m (n-1)/n = 2048 bytes from each to the other.
  EXPECT_EQ(content_of(path("figures/matrix.csv")),
            "source_rank,destination_rank,wire_bytes_of_pair\n0,1,2048\n1,0,2048\n");
}

TEST_F(Report, OfAConfigurationPredictsIt) {
  const std::string html = page({written("case.yaml", k_report_case), "--data", path("figures")});
  EXPECT_NE(html.find("Timeline: a prediction knows calls and sizes, not when they happen."),
            std::string::npos);
  EXPECT_EQ(values_of(figure("provenance"), "value")[0], "predicted");
  EXPECT_NE(html.find("equation 2 of arXiv 2408.10197"), std::string::npos);
}

TEST_F(Report, OfAConfigurationAndATraceIsAboutTheTrace) {
  const std::string config = written("case.yaml", k_report_case);
  const std::string calls = written("calls.jsonl", k_calls);
  page({config, calls, "--data", path("figures")});
  EXPECT_EQ(values_of(figure("overview"), "value")[0], "calls.jsonl");
  EXPECT_EQ(values_of(figure("prediction"), "side")[0], "case.yaml (predicted)");
  EXPECT_EQ(values_of(figure("runs"), "trace"), (std::vector<std::string>{"calls.jsonl", "case.yaml"}));
}

TEST_F(Report, OfEqualTracesSaysSo) {
  const std::string calls = written("calls.jsonl", k_calls);
  const std::string html = page({calls, calls});
  EXPECT_NE(html.find("equal: 2 of 2 calls"), std::string::npos);
  EXPECT_NE(html.find("Differences explained: the two sides are equal."), std::string::npos);
}

TEST_F(Report, NamesTracesByTheirDistinctPathEnds) {
  std::filesystem::create_directories(path("before"));
  std::filesystem::create_directories(path("after"));
  const std::string before = written("before/calls.jsonl", k_calls);
  const std::string after = written("after/calls.jsonl", k_calls);
  const std::string html = page({before, after, "--data", path("figures")});
  EXPECT_EQ(values_of(figure("runs"), "trace"),
            (std::vector<std::string>{"before/calls.jsonl", "after/calls.jsonl"}));
  EXPECT_NE(html.find("<h1>Communication of before/calls.jsonl beside after/calls.jsonl</h1>"),
            std::string::npos);
}

TEST_F(Report, OfThreeHasALineForEach) {
  const std::string calls = written("calls.jsonl", k_calls);
  page({calls, written("case.yaml", k_report_case), calls, "--data", path("figures")});
  EXPECT_EQ(figure("runs")["rows"], 3);
  EXPECT_EQ(figure("index")["left_out"][0]["id"], "iterations");
}

TEST_F(Report, OfAPrintedLogHasNoWireBytes) {
  page({written("run.log", k_report_log), "--data", path("figures")});
  EXPECT_TRUE(values_of(figure("breakdown"), "wire_bytes_all_ranks").is_null());
  EXPECT_EQ(values_of(figure("breakdown"), "calls_all_ranks")[0], 3);
}

TEST_F(Report, OfThePapersVolumesComparesBytes) {
  const std::string html =
      page({written("case.yaml", k_report_case), written("calls.jsonl", k_calls), "--framework", "paper"});
  EXPECT_NE(html.find("knows volumes rather than calls"), std::string::npos);
}

TEST_F(Report, OfHundredThousandRanksIsSmall) {
  const std::string html = page({"1.3B", "--ranks", "100000", "--zero", "1"});
  EXPECT_LT(html.size(), 3U << 20);
  EXPECT_NE(html.find("100,000 ranks are too many for one row each"), std::string::npos);
}

TEST_F(Report, OfHostileNamesStaysText) {
  const std::string name = R"(</script><script>alert(1)</script>)";
  const std::string calls = written(
      "hostile.jsonl",
      R"({"rank":0,"iteration":0,"op":"other","name":")" + name +
          R"(","dtype":"uint8","input_bytes":1,"output_bytes":1,"group":[0,1],"tag":"<img src=x>"})" + "\n");
  const std::string html = page({calls, "--title", "<b>\x01\xff"});
  EXPECT_NE(html.find("&lt;/script&gt;&lt;script&gt;alert(1)"), std::string::npos);
  EXPECT_EQ(html.find("<script>alert"), std::string::npos);
  EXPECT_EQ(html.find("<b>"), std::string::npos);
}

TEST_F(Report, DoesNotOverwriteWhatIsNoReport) {
  const std::string calls = written("calls.jsonl", k_calls);
  const std::string notes = written("notes.txt", "mine");
  const Outcome refused = report({calls, "-o", notes});
  EXPECT_EQ(refused.code, ExitCode::bad_input);
  EXPECT_NE(refused.err.find("is no report of commlens"), std::string::npos);
  EXPECT_EQ(content_of(notes), "mine");
  EXPECT_EQ(report({calls, "-o", path("r.html")}).code, ExitCode::done);
  EXPECT_EQ(report({calls, "-o", path("r.html")}).code, ExitCode::done);  // its own it does
  written("other.html", "<html>");
  EXPECT_EQ(report({calls, "-o", path("other.html"), "--force"}).code, ExitCode::done);
}

TEST_F(Report, RefusesWhatMakesNoSense) {
  const std::string calls = written("calls.jsonl", k_calls);
  const auto error_of = [&](const std::vector<std::string>& arguments) {
    const Outcome outcome = report(arguments);
    EXPECT_EQ(outcome.code, ExitCode::bad_input);
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
    return outcome.err;
  };
  EXPECT_NE(error_of({calls, "--zero", "1"}).find("only traces were given"), std::string::npos);
  EXPECT_NE(error_of({calls, "--iteration", "7"}).find("--iteration 7"), std::string::npos);
  EXPECT_NE(error_of({calls, "-o", path("")}).find("is a directory"), std::string::npos);
  EXPECT_NE(error_of({calls, "--data", calls}).find("is a file"), std::string::npos);
  EXPECT_NE(error_of({"nothing.jsonl"}).find("nothing.jsonl"), std::string::npos);
  EXPECT_NE(error_of({calls, calls, "--framework", "neox,neox,neox"}).find("3 names for 2"),
            std::string::npos);
  EXPECT_FALSE(error_of({}).empty());
}

}  // namespace
}  // namespace commlens
