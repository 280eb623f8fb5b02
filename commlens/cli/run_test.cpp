#include <filesystem>
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "commlens/base/test_support.hpp"
#include "commlens/cli/test_support.hpp"
#include "commlens/trace/test_support.hpp"

namespace commlens {
namespace {

using test_support::Outcome;
using test_support::run_with;

/// A temporary directory of the test.
class Run : public testing::Test {
 protected:
  std::string path(const std::string& name) const { return directory_.path(name); }
  std::string written(const std::string& name, const std::string& text) const {
    return directory_.write(name, text);
  }

 private:
  test_support::ScratchDirectory directory_;
};

constexpr const char* k_two_ranks =
    R"({"rank":0,"iteration":0,"op":"all_reduce","dtype":"fp16","input_bytes":2048,"output_bytes":2048,"group":[0,1]}
{"rank":0,"iteration":0,"op":"broadcast","dtype":"fp32","input_bytes":4,"output_bytes":4,"group":[0,1],"root":0}
{"rank":1,"iteration":0,"op":"all_reduce","dtype":"fp16","input_bytes":2048,"output_bytes":2048,"group":[0,1]}
{"rank":1,"iteration":0,"op":"broadcast","dtype":"fp32","input_bytes":4,"output_bytes":4,"group":[0,1],"root":0}
)";

constexpr const char* k_log =
    R"(Comm. Op            Message Size        Count               Total Latency(ms)   Avg Latency(ms)     tput_avg (Gbps)     busbw_avg (Gbps)
broadcast
                    2.0 KB              146                 11.12               0.08                0.43                0.41
all_reduce
                    4.0 KB              3                   11.12               0.08                0.43                0.41
)";

constexpr const char* k_llama =
    R"({"model_type":"llama","hidden_size":64,"num_hidden_layers":2,"num_attention_heads":4,"intermediate_size":128,"vocab_size":256,"max_position_embeddings":64})";

constexpr const char* k_case =
    R"(schema: commlens.case/1
framework: torch-ddp
model: {family: gpt, layers: 2, hidden: 64, heads: 4, sequence: 32, vocab: 256}
layout: {dp: 2}
)";

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  text.replace(text.find(from), from.size(), to);
  return text;
}

TEST_F(Run, HelpAndVersionAreDone) {
  EXPECT_EQ(run_with({"--version"}).out, "commlens 0.2.0\n");
  EXPECT_EQ(run_with({"--help"}).code, ExitCode::done);
  for (const Command& command : commands()) {
    const Outcome help = run_with({std::string(command.name), "--help"});
    EXPECT_EQ(help.code, ExitCode::done) << command.name;
    EXPECT_NE(help.out.find("Examples:\n  commlens " + std::string(command.name)), std::string::npos)
        << help.out;
    EXPECT_NE(help.out.find(std::string(command.description)), std::string::npos) << help.out;
  }
}

TEST_F(Run, WithoutArgumentsShowsHelpAndRefuses) {
  const Outcome outcome = run_with({});
  EXPECT_EQ(outcome.code, ExitCode::bad_input);
  EXPECT_NE(outcome.out.find("predict"), std::string::npos);
}

TEST_F(Run, SuggestsTheNearestVerbAndOption) {
  EXPECT_EQ(run_with({"predic"}).err, "commlens: there is no verb 'predic'; did you mean predict?\n");
  EXPECT_EQ(run_with({"xyzzy"}).err,
            "commlens: there is no verb 'xyzzy'; choose predict, train, record, replay, compare, summary, "
            "hang, watch, serve, advise, report, "
            "reproduce, import, export, machines, cost, calibrate, simulate, search, bench, tune, doctor\n");
  EXPECT_EQ(run_with({"predict", "1.3B", "--sequ", "5"}).err,
            "commlens: there is no option --sequ; did you mean --seq?; see commlens predict --help\n");
  EXPECT_EQ(
      run_with({"record", "mpirun", "--oversubscribe", "app"}).err,
      "commlens: there is no option --oversubscribe; write the command to record after --; see commlens "
      "record --help\n");
}

TEST_F(Run, BadInputIsRefusedInOneLine) {
  const std::vector<std::vector<std::string>> cases = {
      {"predict"},
      {"predict", "no-such-model"},
      {"predict", path("missing.yml")},
      {"predict", path("")},
      {"predict", written("empty.yml", "")},
      {"predict", "125M", "--tp", "8"},
      {"predict", "125M", "--tp", "0"},
      {"predict", "125M", "--framework", "x"},
      {"predict", "125M", "--rank", "4"},
      {"predict", "125M", "--rank", "-1"},
      {"predict", "125M", "--iteration", "warm"},
      {"predict", "125M", "--format", "xml"},
      {"predict", "125M", "--seq", "512,1024", "--calls", path("x.jsonl")},
      {"predict", "125M", "--tp", "5,7"},
      {"predict", "125M", "--calls", path("same"), "-o", path("./same")},
      {"predict", "125M", "--calls", "-", "--format", "json"},
      {"compare", "125M", "125M", "--gpus-per-node", "4"},
      {"compare", "125M", written("run.log", k_log), "--order"},
      {"export", path("run.log"), "--to", "calls"},
      {"compare", "125M"},
      {"compare", "125M", "125M", "--ignore-op", "scan"},
      {"compare", "125M", "125M", "--iteration", "2-1"},
      {"compare", "125M", "125M", "--zero", "1,2"},
      {"compare", written("a.jsonl", k_two_ranks), path("a.jsonl"), "--tp", "2"},
      {"compare", path("a.jsonl"), path("a.jsonl"), "--iteration", "5-"},
      {"summary", "125M"},
      {"summary", path("missing")},
      {"summary", path("a.jsonl"), "--rank", "2"},
      {"summary", path("a.jsonl"), "--iteration", "1-"},
      {"import", path("a.jsonl")},
      {"import", path("a.jsonl"), path("a.jsonl"), "-o", path("trace")},
      {"import", path("a.jsonl"), "-o", path("")},
      {"export", path("a.jsonl")},
      {"export", path("a.jsonl"), "--to", "excel"},
      {"export", path("a.jsonl"), "--to", "csv", "--rank", "9"},
      {"export", path("a.jsonl"), "--to", "sqlite"},
      {"export", path("a.jsonl"), "--to", "sqlite", "--rank", "0", "-o", path("a.db")},
      {"export", path("a.jsonl"), "--to", "perfetto", "--compute"},
  };
  for (const std::vector<std::string>& arguments : cases) {
    const Outcome outcome = run_with(arguments);
    std::string shown;
    for (const std::string& argument : arguments) {
      shown += argument + " ";
    }
    EXPECT_EQ(outcome.code, ExitCode::bad_input) << shown;
    EXPECT_EQ(outcome.out, "") << shown;
    EXPECT_EQ(outcome.err.rfind("commlens: ", 0), 0u) << shown << outcome.err;
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << shown << outcome.err;
  }
}

TEST_F(Run, AFullDiskIsTheSystemsFault) {
  std::ostringstream out;
  std::ostringstream err;
  out.setstate(std::ios::badbit);
  Console console{out, err, {}, false};
  EXPECT_THROW(run({"predict", "125M"}, console), SystemError);
  EXPECT_THROW(run_with({"predict", "125M", "-o", "/dev/full"}), SystemError);
}

TEST_F(Run, PredictPrintsThePapersEquationWithItsCorrection) {
  // 1.3B, ZeRO-3 on 16 ranks: Eq 3 = 3 P (d-1)/d with Eq 1's P 1,418,596,352 and the true 1,414,647,808.
  const Outcome outcome = run_with(
      {"predict", "1.3B", "--framework", "paper", "--ranks", "16", "--zero", "3", "--format", "json"});
  ASSERT_EQ(outcome.code, ExitCode::done) << outcome.err;
  const nlohmann::json json = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(json["schema"], "commlens.predict/1");
  EXPECT_EQ(json["model"]["name"], "1.3B");
  EXPECT_EQ(json["model"]["parameters"], 1'414'647'808);
  EXPECT_EQ(json["model"]["parameters_paper"], 1'418'596'352);
  EXPECT_EQ(json["layout"]["ranks"], 16);
  EXPECT_EQ(json["layout"]["dp"], 16);
  EXPECT_EQ(json["layout"]["zero"], 3);
  EXPECT_EQ(json["framework"], "paper");
  EXPECT_EQ(json["iteration"], "steady");
  EXPECT_EQ(json["accounting"], "messages");
  ASSERT_EQ(json["rows"].size(), 3u);
  EXPECT_EQ(json["rows"][0]["ranks"], (nlohmann::json{0, 15}));
  const auto equation = std::find_if(json["formulas"].begin(), json["formulas"].end(),
                                     [](const nlohmann::json& each) { return each["equation"] == "3"; });
  ASSERT_NE(equation, json["formulas"].end());
  EXPECT_EQ((*equation)["value"], 3'989'802'240);
  EXPECT_EQ((*equation)["value_exact"], 3'978'696'960);
}

TEST_F(Run, OurTrainerKeepsAnExplicitFp16) {
  const Outcome builtin = run_with({"predict", "19M", "--framework", "commlens"});
  EXPECT_EQ(builtin.code, ExitCode::done);
  EXPECT_EQ(builtin.err, "");
  EXPECT_NE(builtin.out.find(", bf16"), std::string::npos) << builtin.out;
  const std::string fp16 =
      written("ds.json", R"({"fp16": {"enabled": true}, "train_micro_batch_size_per_gpu": 4})");
  const Outcome chosen = run_with({"predict", "19M", fp16, "--framework", "commlens", "--ranks", "2"});
  EXPECT_EQ(chosen.err, "");
  EXPECT_NE(chosen.out.find("commlens.gradient_overflow"), std::string::npos) << chosen.out;
}

TEST_F(Run, PredictSaysWhichFrameworkAndWhichDefault) {
  EXPECT_NE(run_with({"predict", "19M"}).out.find("rules: neox 4bc66703"), std::string::npos);
  EXPECT_NE(run_with({"predict", "19M"}).out.find("(the default for this configuration"), std::string::npos);
  EXPECT_EQ(run_with({"predict", "19M", "--framework", "paper"}).out.find("the default"), std::string::npos);
}

TEST_F(Run, PredictSaysWhyItIsUnverified) {
  // Megatron core 0.7 was measured in fp32 and bf16 runs, which have no overflow flag.
  const std::vector<std::string> job = {"predict", "125M", "--framework", "megatron@0.7.0", "--ranks", "4"};
  EXPECT_NE(run_with(job).out.find("; unverified: "), std::string::npos) << run_with(job).out;
  std::vector<std::string> as_json = job;
  as_json.insert(as_json.end(), {"--format", "json"});
  const nlohmann::json json = nlohmann::json::parse(run_with(as_json).out);
  EXPECT_EQ(json["verified"], false);
  EXPECT_FALSE(json["unverified"].empty());
  as_json.insert(as_json.end(), {"--tp", "1,2"});
  const nlohmann::json sweep = nlohmann::json::parse(run_with(as_json).out);
  EXPECT_EQ(sweep["model"]["name"], "125M");
  EXPECT_EQ(sweep["framework_version"], "core_v0.7.0");
  EXPECT_EQ(sweep["rows"][0]["verified"], false);
}

TEST_F(Run, SweepsSplitBytesByNode) {
  const std::vector<std::string> job = {"predict", "125M", "--dp", "2,4", "--gpus-per-node", "2"};
  EXPECT_NE(run_with(job).out.find("inter-node/rank"), std::string::npos);
  std::vector<std::string> as_json = job;
  as_json.insert(as_json.end(), {"--format", "json"});
  const nlohmann::json json = nlohmann::json::parse(run_with(as_json).out);
  EXPECT_EQ(json["rows"][0]["per_rank"]["wire_inter_node_bytes"], 0);
  EXPECT_GT(json["rows"][1]["per_rank"]["wire_inter_node_bytes"], 0);
}

TEST_F(Run, PredictGivesThePapersCountForDenseGptAlone) {
  const std::string config = written("config.json", k_llama);
  EXPECT_EQ(run_with({"predict", config, "--framework", "torch-ddp"}).out.find("Eq. 1"), std::string::npos);
  const Outcome outcome = run_with({"predict", config, "--framework", "torch-ddp", "--format", "json"});
  ASSERT_EQ(outcome.code, ExitCode::done) << outcome.err;
  EXPECT_TRUE(nlohmann::json::parse(outcome.out)["model"]["parameters_paper"].is_null());
}

TEST_F(Run, ACaseNamesItsFramework) {
  const std::string config = written("case.yaml", k_case);
  const Outcome outcome = run_with({"predict", config});
  EXPECT_NE(outcome.out.find("(the case names no version)"), std::string::npos) << outcome.out << outcome.err;
  EXPECT_EQ(
      nlohmann::json::parse(run_with({"predict", config, "--format", "json"}).out)["framework_is_default"],
      false);
}

TEST_F(Run, TotalsOfTheLoggersViewAreLoggerBytes) {
  const std::string text = run_with({"predict", "125M", "--accounting", "deepspeed-logger"}).out;
  EXPECT_NE(text.find(" logger bytes, "), std::string::npos) << text;
}

TEST_F(Run, PredictOfOneRankShowsThatRank) {
  const nlohmann::json json = nlohmann::json::parse(
      run_with({"predict", "19M", "--ranks", "4", "--pp", "2", "--rank", "3", "--format", "json"}).out);
  EXPECT_EQ(json["totals"]["per_rank"]["rank"], 3);
  for (const nlohmann::json& row : json["rows"]) {
    EXPECT_EQ(row["ranks"], (nlohmann::json{3, 3}));
  }
}

TEST_F(Run, PredictSweepsAndNamesWhatCannotBe) {
  const Outcome outcome =
      run_with({"predict", "125M", "--tp", "4,8", "--format", "csv", "--framework", "paper"});
  EXPECT_EQ(outcome.code, ExitCode::done) << outcome.err;
  EXPECT_EQ(outcome.out.rfind("tp,calls_per_rank,", 0), 0u) << outcome.out;
  EXPECT_NE(outcome.out.find("\n8,,"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("12 heads are not divisible by tp 8"), std::string::npos) << outcome.out;
  const nlohmann::json json =
      nlohmann::json::parse(run_with({"predict", "125M", "--tp", "4,8", "--format", "json"}).out);
  EXPECT_EQ(json["rows"][0]["flags"]["tp"], 4);
  EXPECT_TRUE(json["rows"][1].contains("reason"));
}

TEST_F(Run, PredictedCallsEqualTheirConfiguration) {
  const std::string calls = path("calls.jsonl.gz");
  ASSERT_EQ(run_with({"predict", "19M", "--ranks", "4", "--pp", "2", "--calls", calls}).code, ExitCode::done);
  const Outcome outcome = run_with({"compare", "19M", calls, "--pp", "2", "--ranks", "4"});
  EXPECT_EQ(outcome.code, ExitCode::done) << outcome.out << outcome.err;
  EXPECT_EQ(outcome.out.rfind("equal: ", 0), 0u) << outcome.out;
  EXPECT_NE(outcome.out.find("(4 ranks, iterations -1 to 2)"), std::string::npos) << outcome.out;
}

TEST_F(Run, CompareTakesTheNumberOfRanksFromTheTrace) {
  const std::string calls = path("calls.jsonl");
  ASSERT_EQ(run_with({"predict", "19M", "--ranks", "4", "--calls", calls, "--rank", "0"}).code,
            ExitCode::done);
  EXPECT_EQ(run_with({"compare", "19M", calls}).code, ExitCode::done);
}

TEST_F(Run, CompareExitsWithOneWhenTheSidesDiffer) {
  const std::string a = written("a.jsonl", k_two_ranks);
  const std::string b = written("b.jsonl", replaced(k_two_ranks, "2048", "1024"));
  EXPECT_EQ(run_with({"compare", a, a}).code, ExitCode::done);
  const Outcome outcome = run_with({"compare", a, b});
  EXPECT_EQ(outcome.code, ExitCode::differs);
  EXPECT_EQ(outcome.out.rfind("different: 3 of 4 calls equal, 1 of another size (2 ranks, iteration 0)\n", 0),
            0u)
      << outcome.out;
  EXPECT_EQ(run_with({"compare", a, b, "--ignore-op", "all_reduce"}).code, ExitCode::done);
}

TEST_F(Run, CompareOfNothingIsAnError) {
  const std::string a = written(
      "a.jsonl",
      R"({"rank":0,"iteration":0,"op":"barrier","dtype":"uint8","input_bytes":0,"output_bytes":0,"group":[0,1]})"
      "\n");
  const Outcome outcome = run_with({"compare", a, a});
  EXPECT_EQ(outcome.code, ExitCode::bad_input);
  EXPECT_EQ(outcome.err, "commlens: nothing to compare: " + a + " and " + a +
                             " have no call but barriers and ignored ops\n");
  const std::string b = written("b.jsonl", k_two_ranks);
  EXPECT_EQ(run_with({"compare", b, b, "--ignore-op", "all_reduce", "--ignore-op", "broadcast"}).code,
            ExitCode::bad_input);
}

TEST_F(Run, CompareCountsOrderOnlyWhenAsked) {
  const std::string a = written("a.jsonl", k_two_ranks);
  std::istringstream lines(k_two_ranks);
  std::string first;
  std::string second;
  std::getline(lines, first);
  std::getline(lines, second);
  const std::string b = written("b.jsonl", second + "\n" + first + "\n");
  EXPECT_EQ(run_with({"compare", a, b}).code, ExitCode::done);
  EXPECT_EQ(run_with({"compare", a, b, "--order"}).code, ExitCode::differs);
}

TEST_F(Run, CompareSaysThatAPredictionIsUnverified) {
  const std::vector<std::string> sides = {"compare", "125M", "125M", "--framework", "megatron", "--dp", "2"};
  EXPECT_NE(run_with(sides).out.find("; unverified: "), std::string::npos) << run_with(sides).out;
  std::vector<std::string> as_json = sides;
  as_json.insert(as_json.end(), {"--format", "json"});
  const nlohmann::json json = nlohmann::json::parse(run_with(as_json).out);
  EXPECT_EQ(json["verified"]["a"], false);
  EXPECT_FALSE(json["unverified"]["b"].empty());
}

TEST_F(Run, CompareSaysWhichIterationsEachSideCouldHave) {
  const std::string a = written("a.jsonl", k_two_ranks);
  EXPECT_EQ(run_with({"compare", "19M", a, "--iteration", "5-9"}).err,
            "commlens: no requested iteration is in both: 19M is a configuration, predicted for any "
            "iteration, but " +
                a + " has 0; change --iteration\n");
  EXPECT_NE(run_with({"compare", "19M", "19M", "--iteration", "50-52"}).out.find("iterations 50 to 52"),
            std::string::npos);
}

/// k_two_ranks as written by a tool without iterations.
std::string without_iterations(std::string text) {
  const std::string known = "\"iteration\":0";
  for (std::size_t at = text.find(known); at != std::string::npos; at = text.find(known)) {
    text.replace(at, known.size(), "\"iteration\":null");
  }
  return text;
}

TEST_F(Run, CompareOfTwoViewsOfOneJobIsOverTheWholeJob) {
  const std::string a = written("a.jsonl", k_two_ranks);
  const std::string b = written("b.jsonl", without_iterations(k_two_ranks));
  EXPECT_EQ(run_with({"compare", b, b}).code, ExitCode::done);
  const Outcome same = run_with({"compare", a, b});
  EXPECT_EQ(same.code, ExitCode::done) << same.err;
  EXPECT_TRUE(same.out.starts_with("equal: 4 of 4 calls (2 ranks, the whole job)\nA = ")) << same.out;
  EXPECT_NE(
      same.out.find("B does not say which iteration a call is of: counted are the calls of each rank per "
                    "op, group and message size, all of B against iteration 0 of A\n"),
      std::string::npos)
      << same.out;
  const std::string all = without_iterations(k_two_ranks);
  const std::string rank_0 = written("rank0.jsonl", all.substr(0, all.find("\n{\"rank\":1,") + 1));
  const Outcome of_rank_0 = run_with({"compare", rank_0, a, "--format", "json"});
  EXPECT_EQ(of_rank_0.code, ExitCode::done) << of_rank_0.err;
  const nlohmann::json json = nlohmann::json::parse(of_rank_0.out);
  EXPECT_EQ(json["schema"], "commlens.compare_whole_job/2");
  EXPECT_EQ(json["iterations_unknown"], "a");
  EXPECT_EQ(json["rank_count_only_b"], 1);
  EXPECT_TRUE(json["a"].is_string());
}

TEST_F(Run, CompareOfWholeJobsExitsWith1WhenTheyDiffer) {
  const std::string a = written("a.jsonl", k_two_ranks);
  const std::string b =
      written("b.jsonl", replaced(without_iterations(k_two_ranks), "\"input_bytes\":4,\"output_bytes\":4",
                                  "\"input_bytes\":8,\"output_bytes\":8"));
  const Outcome outcome = run_with({"compare", a, b});
  EXPECT_EQ(outcome.code, ExitCode::differs);
  EXPECT_TRUE(outcome.out.starts_with(
      "different: 3 of 5 calls equal, 1 only in A, 1 only in B (2 ranks, the whole job)\n"))
      << outcome.out;
  EXPECT_EQ(run_with({"compare", a, b, "--ignore-op", "broadcast"}).code, ExitCode::done);
  EXPECT_EQ(run_with({"compare", a, b, "--order"}).err,
            "commlens: --order: " + b +
                " does not say which iteration a call is of, so calls are counted over the whole job; leave "
                "--order out\n");
  EXPECT_EQ(run_with({"compare", a, b, "--iteration", "3-4"}).err,
            "commlens: no requested iteration is in A: it has 0; change --iteration\n");
}

TEST_F(Run, CompareOfAConfigurationAsksHowManyIterationsRan) {
  const std::string b = written("b.jsonl", without_iterations(k_two_ranks));
  for (const std::vector<std::string>& sides :
       {std::vector{std::string("19M"), b}, {b, std::string("19M")}}) {
    const Outcome predicted = run_with({"compare", sides[0], sides[1]});
    EXPECT_EQ(predicted.code, ExitCode::bad_input);
    EXPECT_TRUE(predicted.err.starts_with("commlens: " + b +
                                          ": it does not say which iteration a call is of; say how many ran"))
        << predicted.err;
    const Outcome outcome = run_with({"compare", sides[0], sides[1], "--iteration", "-1-9"});
    EXPECT_EQ(outcome.code, ExitCode::differs) << outcome.err;
    EXPECT_NE(outcome.out.find("against iterations -1 to 9 of"), std::string::npos) << outcome.out;
  }
}

TEST_F(Run, NeverReplacesTheFileItReads) {
  const std::string a = written("a.jsonl", k_two_ranks);
  for (const std::vector<std::string>& words : {std::vector<std::string>{"export", a, "--to", "csv", "-o", a},
                                                {"summary", a, "--format", "json", "-o", a}}) {
    EXPECT_EQ(run_with(words).code, ExitCode::bad_input);
  }
  EXPECT_EQ(test_support::content_of(a), k_two_ranks);
}

TEST_F(Run, CompareWithALogLeavesIgnoredOpsOut) {
  const std::string log = written("run.log", k_log);
  const std::string text = run_with({"compare", "19M", log, "--ignore-op", "broadcast"}).out;
  EXPECT_EQ(text.find("\nbroadcast"), std::string::npos) << text;
  EXPECT_NE(text.find("skipped: "), std::string::npos) << text;
  const Outcome recorded = run_with({"compare", written("a.jsonl", k_two_ranks), log});
  EXPECT_EQ(recorded.out.find("predicted"), std::string::npos) << recorded.out;
}

TEST_F(Run, CompareAgainstThePaperIsInBytes) {
  const Outcome outcome =
      run_with({"compare", "19M", "19M", "--framework", "paper,deepspeed", "--ranks", "8"});
  EXPECT_EQ(outcome.code, ExitCode::differs) << outcome.err;
  EXPECT_NE(outcome.out.find("message bytes per axis and op of one iteration"), std::string::npos)
      << outcome.out;
}

TEST_F(Run, SummaryAddsUpAllRanks) {
  const nlohmann::json json =
      nlohmann::json::parse(run_with({"summary", written("a.jsonl", k_two_ranks), "--format", "json"}).out);
  EXPECT_EQ(json["calls_all_ranks"], 4);
  EXPECT_EQ(json["rank_count"], 2);
  EXPECT_EQ(json["ops"][0]["op"], "all_reduce");
  EXPECT_EQ(json["ops"][0]["message_bytes_all_ranks"], 4096);
  EXPECT_EQ(json["ops"][0]["wire_bytes_all_ranks"], 4096);  // 2 * 2048 * 1/2 on each of two ranks
  EXPECT_EQ(json["sizes"]["small_share_of_calls"], 1.0);
}

TEST_F(Run, SummaryOfOneRankNamesIt) {
  const std::string calls = written("a.jsonl", k_two_ranks);
  const Outcome outcome = run_with({"summary", calls, "--rank", "1"});
  EXPECT_NE(outcome.out.find("2 calls of rank 1, "), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("per op and group, rank 1\n"), std::string::npos) << outcome.out;
  EXPECT_EQ(outcome.out.find("all ranks"), std::string::npos) << outcome.out;
  EXPECT_EQ(
      nlohmann::json::parse(run_with({"summary", calls, "--rank", "1", "--format", "json"}).out)["scope"],
      "rank 1");
}

TEST_F(Run, ImportedTracesEqualTheirFilesAndExportBack) {
  const std::string calls = written("a.jsonl", k_two_ranks);
  ASSERT_EQ(run_with({"import", calls, "-o", path("trace")}).code, ExitCode::done);
  EXPECT_EQ(run_with({"compare", path("trace"), calls}).code, ExitCode::done);
  ASSERT_EQ(run_with({"export", path("trace"), "--to", "calls", "-o", path("b.jsonl")}).code, ExitCode::done);
  EXPECT_EQ(run_with({"compare", path("b.jsonl"), calls, "--order"}).code, ExitCode::done);
}

TEST_F(Run, CallsGoToStandardOutput) {
  const std::string text = run_with({"predict", "19M", "--calls", "-"}).out;
  EXPECT_EQ(text.rfind("{\"", 0), 0u) << text.substr(0, 80);
}

TEST_F(Run, ResultsGoToAFileWhenAsked) {
  const Outcome outcome = run_with({"predict", "19M", "--format", "csv", "-o", path("table.csv")});
  EXPECT_EQ(outcome.code, ExitCode::done);
  EXPECT_EQ(outcome.out, "");
  std::ifstream file(path("table.csv"));
  std::string title;
  std::getline(file, title);
  EXPECT_EQ(title.rfind("first_rank,last_rank,op,axis,", 0), 0u) << title;
}

}  // namespace
}  // namespace commlens
