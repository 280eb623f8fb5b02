#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "commlens/base/modules.hpp"
#include "commlens/base/test_support.hpp"
#include "commlens/cli/test_support.hpp"
#include "commlens/trace/test_support.hpp"

namespace commlens {
namespace {

using test_support::content_of;
using test_support::ScopedVariable;
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

TEST_F(Report, WritesTheChartOfEachFigureThatHasOne) {
  if (!module_file("libcommlens-charts.so")) {
    GTEST_SKIP() << "built without Duktape or npm";
  }
  page({written("calls.jsonl", k_calls), "--data", path("figures")});
  const nlohmann::json index = figure("index");
  for (const nlohmann::json& entry : index["figures"]) {
    const std::string id = entry["id"];
    const std::string file = path("figures/" + id + ".svg");
    const bool has_chart = entry["kind"] != "table" && entry["rows"] > 0;
    ASSERT_EQ(std::filesystem::exists(file), has_chart) << id;
    if (has_chart) {
      const std::string svg = content_of(file);
      EXPECT_TRUE(svg.starts_with("<svg width=\"680\" ")) << id;
      EXPECT_NE(svg.find(">" + figure(id)["title"].get<std::string>() + "</text>"), std::string::npos) << id;
    }
  }
}

TEST_F(Report, SaysOnceWhyItWritesNoCharts) {
  std::filesystem::create_directory(path("modules"));
  written("modules/libcommlens-charts.so", "no library");
  const ScopedVariable modules("COMMLENS_MODULE_PATH", path("modules"));
  const Outcome outcome =
      report({written("calls.jsonl", k_calls), "-o", path("page.html"), "--data", path("figures")});
  EXPECT_EQ(outcome.code, ExitCode::done);
  const std::string expected =
      "commlens: warning: no SVG is written: cannot load " + path("modules/libcommlens-charts.so");
  EXPECT_TRUE(outcome.err.starts_with(expected)) << outcome.err;
  EXPECT_EQ(outcome.err.find("no SVG", expected.size()), std::string::npos) << outcome.err;
  EXPECT_TRUE(std::filesystem::exists(path("figures/matrix.json")));
  EXPECT_FALSE(std::filesystem::exists(path("figures/matrix.svg")));
}

TEST_F(Report, OfAConfigurationPredictsIt) {
  const std::string html = page({written("case.yaml", k_report_case), "--data", path("figures")});
  EXPECT_NE(html.find("Timeline: a prediction knows calls and sizes, not when they happen."),
            std::string::npos);
  EXPECT_EQ(values_of(figure("provenance"), "value")[0], "predicted");
  EXPECT_NE(html.find("equation 2 of arXiv 2408.10197"), std::string::npos);
}

TEST_F(Report, OfAConfigurationSaysWhatIsPredicted) {
  const std::string html = page({written("case.yaml", k_report_case), "--data", path("figures")});
  const nlohmann::json configuration = figure("given");
  std::map<std::string, std::string> facts;
  for (std::size_t row = 0; row < configuration["rows"]; ++row) {
    facts[values_of(configuration, "what")[row]] = values_of(configuration, "value")[row];
  }
  EXPECT_EQ(facts["layout"], "2 ranks = dp 2 × tp 1 × pp 1, cp 1, ep 1");
  EXPECT_EQ(facts["sharding"], "ZeRO-1");
  EXPECT_EQ(facts["sequence"], "32 tokens");
  EXPECT_EQ(facts["batch"], "global 2 (64 tokens) = micro-batch 1 × 1 micro-batch × 2 replicas");
  EXPECT_NE(html.find("<div class=\"verdict\">\n<p>2 ranks make "), std::string::npos);
}

TEST_F(Report, NamesTheAxesOfATraceAsTheConfigurationBesideItDoes) {
  page({written("case.yaml", k_report_case), written("calls.jsonl", k_calls), "--data", path("figures")});
  EXPECT_EQ(values_of(figure("breakdown"), "call")[0], "all_reduce dp x2");
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
  EXPECT_EQ(figure("runs")["kind"], "bars");
  EXPECT_EQ(values_of(figure("runs-by-op"), "trace")[0], "calls.jsonl");
  EXPECT_EQ(figure("index")["left_out"][1]["id"], "iterations");
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

/// What `search` writes of a small model.
std::string found_by_search(const std::string& file) {
  const Outcome outcome = test_support::run_with({"search", "125M", "--machine", "dgx_h100", "--gpus", "8",
                                                  "--global-batch", "8", "--format", "json", "-o", file});
  EXPECT_EQ(outcome.code, ExitCode::done) << outcome.err;
  return file;
}

TEST_F(Report, OfWhatSearchHasFoundHasItsFiguresAlone) {
  const std::string found = found_by_search(path("found.json"));
  const std::string html = page({found, "--data", path("figures")});
  EXPECT_NE(html.find("<h1>Layouts of 125M on 8 devices of dgx_h100</h1>"), std::string::npos);
  std::vector<std::string> ids;
  const nlohmann::json index = figure("index");
  for (const nlohmann::json& entry : index["figures"]) {
    ids.push_back(entry["id"]);
  }
  EXPECT_EQ(ids, (std::vector<std::string>{"given", "search", "layouts", "front", "binding", "changes"}));
  EXPECT_EQ(figure("index")["left_out"][0]["reason"],
            "no layout was simulated; commlens search --retime N does");
}

TEST_F(Report, OfResultsAndATraceHasBoth) {
  const std::string found = found_by_search(path("found.json"));
  page({found, written("calls.jsonl", k_calls), "--iterations", "0", "--data", path("figures")});
  EXPECT_EQ(figure("index")["figures"][1]["id"], "search");
  EXPECT_EQ(values_of(figure("overview"), "value")[0], "calls.jsonl");
}

TEST_F(Report, RefusesResultsThatItCannotRead) {
  const std::string found = found_by_search(path("found.json"));
  const auto refused = [&](const std::vector<std::string>& arguments, const std::string& reason) {
    const Outcome outcome = report(arguments);
    EXPECT_EQ(outcome.code, ExitCode::bad_input);
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
    EXPECT_NE(outcome.err.find(reason), std::string::npos) << outcome.err;
  };
  refused({found, found}, "is the second of its kind");
  refused({found, "--zero", "1"},
          "only results of search, simulate and bench were given: --framework, --iteration, --rank, "
          "--gpus-per-node");
  refused({written("bad.json", R"({"schema": "commlens.search/1"})")}, "bad.json: model is missing");
  refused({written("cut.json", R"({"schema": "commlens.simulate/1", )")}, "was the file cut off?");
  refused({written("new.json", R"({"schema": "commlens.simulate/2"})")}, "which this version does not read");
  const Outcome summary = test_support::run_with({"summary", found});
  EXPECT_EQ(summary.code, ExitCode::bad_input);
  EXPECT_NE(summary.err.find("try commlens report"), std::string::npos) << summary.err;
}

TEST_F(Report, OfASimulatedTraceSaysOnWhatAndHasNoColdStart) {
  const Outcome simulated =
      test_support::run_with({"simulate", "125M", "--ranks", "4", "--pp", "2", "--framework", "megatron",
                              "--machine", "dgx_h100", "--trace", path("simulated")});
  ASSERT_EQ(simulated.code, ExitCode::done) << simulated.err;
  const std::string html = page({path("simulated")});
  EXPECT_NE(html.find("on dgx_h100 (NVIDIA DGX H100), nccl "), std::string::npos);
  EXPECT_NE(html.find("Cold start: simulated iterations are steady ones; none is cold."), std::string::npos);
  EXPECT_NE(html.find("simulate counts that as bubble and waiting"), std::string::npos);
  const Outcome summary = test_support::run_with({"summary", path("simulated")});
  EXPECT_EQ(summary.out.find("cold start"), std::string::npos) << summary.out;
  EXPECT_NE(summary.out.find("on dgx_h100 (NVIDIA DGX H100)"), std::string::npos) << summary.out;
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
