// `commlens replay` as a user runs it: what it makes, and what it refuses before anything runs.
#include "commlens/app/replay.hpp"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "commlens/app/events.hpp"
#include "commlens/base/result.hpp"
#include "commlens/trace/test_support.hpp"
#include "tests/cli/program.hpp"

namespace commlens {
namespace {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

struct ReplayedMessage {
  int from = 0;
  int to = 0;
  bool is_send = false;
  int start_us = 0;
  int bytes = 64;
};

std::string line_of(const ReplayedMessage& message, bool has_time) {
  return fmt::format(
      R"({{"rank":{},"iteration":0,"op":"{}","dtype":"fp32","input_bytes":{},"output_bytes":{},"group":[{},{}],"peer":{}{}}})"
      "\n",
      message.is_send ? message.from : message.to, message.is_send ? "send" : "recv",
      message.is_send ? message.bytes : 0, message.is_send ? 0 : message.bytes, message.from, message.to,
      message.is_send ? message.to : message.from,
      has_time ? fmt::format(R"(,"start_ns":{},"duration_ns":1000)", message.start_us * 1000) : "");
}

class ReplayVerb : public testing::Test {
 protected:
  /// Collectives of all ranks, `calls` of each, `gap` apart; ranks from `first` on.
  std::string collectives(const std::string& name, int ranks, int calls, int first = 0, int gap_us = 100) {
    std::string group;
    for (int rank = 0; rank < ranks; ++rank) {
      group += fmt::format("{}{}", rank == 0 ? "" : ",", rank);
    }
    std::string text;
    for (int rank = first; rank < ranks; ++rank) {
      for (int call = 0; call < calls; ++call) {
        text += fmt::format(
            R"({{"rank":{},"iteration":{},"op":"all_reduce","dtype":"fp32","input_bytes":64,"output_bytes":64,"group":[{}],"start_ns":{},"duration_ns":1000}})"
            "\n",
            rank, call / 4, group, call * gap_us * 1000);
      }
    }
    return directory_.write(name, text);
  }
  std::string messages(const std::string& name, const std::vector<ReplayedMessage>& all, bool has_times) {
    std::string text;
    for (const ReplayedMessage& message : all) {
      text += line_of(message, has_times);
    }
    return directory_.write(name, text);
  }
  Answer replay(Words words) const {
    words.insert(words.begin(), "replay");
    words.insert(words.end(), {"-o", again()});
    return commlens_with(words);
  }
  /// `trace` without its first call, of rank 0.
  std::string without_first_call(const std::string& trace) {
    const Answer all = commlens_with({"export", trace, "--to", "calls", "-o", "-"});
    EXPECT_EQ(all.code, 0) << all.err;
    return directory_.write("half.jsonl", all.out.substr(all.out.find('\n') + 1));
  }
  /// Two ranks that receive before they send.
  std::string both_receive_first(const std::string& name, bool has_times) {
    return messages(name,
                    {{.from = 1, .to = 0, .is_send = false, .start_us = 0},
                     {.from = 0, .to = 1, .is_send = true, .start_us = 10},
                     {.from = 0, .to = 1, .is_send = false, .start_us = 0},
                     {.from = 1, .to = 0, .is_send = true, .start_us = 10}},
                    has_times);
  }
  /// Whether the ranks of a replay are started.
  bool starts_ranks(const std::string& trace) const {
    bool starts = false;
    ReplayRequest request{.trace = trace, .output = again()};
    request.events.progress = [&](const ProgressReport& report) {
      starts = starts || report.task.starts_with("replaying");
    };
    const Result<ReplayResult> result = commlens::replay(request);
    EXPECT_EQ(result.has_value(), starts);
    EXPECT_EQ(std::filesystem::exists(again()), starts);
    return starts;
  }
  /// Refused, with that in its line, before anything ran.
  void expect_refusal(const Words& words, const std::string& why) const {
    const Answer answer = replay(words);
    EXPECT_EQ(answer.code, 2) << answer.out;
    EXPECT_NE(answer.err.find(why), std::string::npos) << answer.err;
    EXPECT_FALSE(std::filesystem::exists(again()));
  }
  std::string again() const { return directory_.path("again"); }

  ScratchDirectory directory_;
};

TEST_F(ReplayVerb, MakesTheCallsOfATrace) {
  const std::string trace = collectives("calls.jsonl", 4, 12);
  const Answer answer = replay({trace});
  EXPECT_EQ(answer.code, 0) << answer.err;
  EXPECT_EQ(answer.last_line(), "calls: 48 of 48 equal");
  EXPECT_EQ(commlens_with({"compare", trace, again(), "--order"}).code, 0);
  EXPECT_NE(commlens_with({"summary", again()}).out.find("replayed"), std::string::npos);
}

TEST_F(ReplayVerb, SaysInJsonWhatItMade) {
  const Answer answer =
      replay({collectives("calls.jsonl", 2, 8), "--back-to-back", "--repeat", "3", "--format", "json"});
  ASSERT_EQ(answer.code, 0) << answer.err;
  const Json json = Json::parse(answer.out);
  EXPECT_EQ(json["schema"], "commlens.replay/1");
  EXPECT_EQ(json["pacing"], "back_to_back");
  EXPECT_EQ(json["rank_count"], 2);
  EXPECT_EQ(json["equal_calls_all_ranks"], 16);
  EXPECT_EQ(json["run_s"].size(), 3U);
  EXPECT_EQ(json["rows"].size(), 1U);
  EXPECT_EQ(json["rows"][0]["op"], "all_reduce");
  EXPECT_TRUE(json["rows"][0]["lag_p50_ns"].is_null());
}

TEST_F(ReplayVerb, ReplaysAPartOfATrace) {
  const Answer answer = replay({collectives("calls.jsonl", 2, 12), "--iteration", "1-"});
  EXPECT_EQ(answer.code, 0) << answer.err;
  EXPECT_EQ(answer.last_line(), "calls: 16 of 16 equal");
}

TEST_F(ReplayVerb, PredictsAConfigurationAndReplaysIt) {
  const Answer answer = replay({"19M", "--layers", "2", "--hidden", "64", "--heads", "2", "--seq", "16",
                                "--vocab", "256", "--ranks", "4", "--pp", "2", "--micro-batches", "4"});
  EXPECT_EQ(answer.code, 0) << answer.err;
  EXPECT_NE(answer.out.find("no times"), std::string::npos);
  EXPECT_TRUE(answer.last_line().ends_with(" equal")) << answer.out;
}

TEST_F(ReplayVerb, RefusesAnotherNumberOfRanks) {
  expect_refusal({collectives("calls.jsonl", 2, 4), "--ranks", "3"}, "--ranks 3: the trace has 2 ranks");
}

TEST_F(ReplayVerb, RefusesATraceThatLacksARank) {
  expect_refusal({collectives("calls.jsonl", 3, 4, 1)}, "the trace lacks rank 0 of its 3");
}

TEST_F(ReplayVerb, RefusesHalfAGroup) {
  expect_refusal({without_first_call(collectives("whole.jsonl", 2, 4))},
                 "calls on the group of 2 ranks (0, 1), on which rank");
}

TEST_F(ReplayVerb, RefusesRanksThatBothReceiveFirst) {
  for (const bool has_times : {true, false}) {
    const std::string trace = both_receive_first(has_times ? "timed.jsonl" : "untimed.jsonl", has_times);
    expect_refusal({trace}, "a replay would never end: rank 0 waits for its recv");
  }
  const Answer late = replay({directory_.path("untimed.jsonl"), "--late-waits"});
  EXPECT_EQ(late.code, 0) << late.err;
}

TEST_F(ReplayVerb, RefusesBeforeARankIsStarted) {
  const std::string whole = collectives("whole.jsonl", 2, 4);
  EXPECT_FALSE(starts_ranks(without_first_call(whole)));
  EXPECT_FALSE(starts_ranks(collectives("missing.jsonl", 3, 4, 1)));
  EXPECT_FALSE(starts_ranks(both_receive_first("circle.jsonl", true)));
  EXPECT_TRUE(starts_ranks(whole));
}

TEST_F(ReplayVerb, RefusesFlagsThatDoNotApply) {
  const std::string trace = collectives("calls.jsonl", 2, 4);
  const std::string untimed =
      messages("untimed.jsonl",
               {{.from = 0, .to = 1, .is_send = true}, {.from = 0, .to = 1, .is_send = false}}, false);
  expect_refusal({trace, "--back-to-back", "--scale-compute", "2"}, "leave --scale-compute out");
  expect_refusal({trace, "--back-to-back", "--timed"}, "leave it or --timed out");
  expect_refusal({trace, "--tp", "2"}, "the layout flags are for configurations");
  expect_refusal({untimed, "--timed"}, "has no times of single calls");
  expect_refusal({trace, "--transport", "mpi"}, "no MPI launcher started this process");
  EXPECT_EQ(commlens_with({"replay", trace, "-o", trace}).code, 2);
}

// What was recorded until then is a trace: two ranks made four calls, and their fifth is an hour away.
TEST_F(ReplayVerb, ThatIsInterruptedLeavesATrace) {
  const std::string first = collectives("first.jsonl", 2, 4);
  std::string text = test_support::content_of(first);
  for (const int rank : {0, 1}) {
    text += fmt::format(
        R"({{"rank":{},"iteration":1,"op":"all_reduce","dtype":"fp32","input_bytes":64,"output_bytes":64,"group":[0,1],"start_ns":3600000000000,"duration_ns":1000}})"
        "\n",
        rank);
  }
  const std::string trace = directory_.write("calls.jsonl", text);
  std::signal(SIGINT, SIG_DFL);  // what a shell starts behind its back inherits that it is ignored
  RunningProgram program({commlens_binary(), "replay", trace, "--sleep", "-o", again()}, {});
  Answer summary;
  constexpr int k_most_attempts = 5000;
  const std::string recorded = "8 calls of 2 ranks";
  for (int attempt = 0; attempt < k_most_attempts && summary.out.find(recorded) == std::string::npos;
       ++attempt) {
    summary = commlens_with({"summary", again()});
  }
  program.signal(SIGINT);
  EXPECT_EQ(program.wait().code, 128 + SIGINT);
  const Answer comparison = commlens_with({"compare", first, again(), "--order"});
  EXPECT_EQ(comparison.code, 0) << comparison.out << comparison.err;
  EXPECT_NE(comparison.out.find("equal: 8 of 8 calls"), std::string::npos) << comparison.out;
}

/// Trained, then replayed by four threads with the gaps of the training.
TEST_F(TrainerTest, AReplayedTrainingHasTheCallsOfTheTraining) {
  const std::string trained = directory_.path("trained");
  const Answer training = commlens_with(
      {"train",           "19M", "--layers",     "4",    "--hidden", "32",   "--heads", "4", "--seq",  "16",
       "--vocab",         "256", "--dtype",      "fp32", "--ranks",  "4",    "--pp",    "2", "--zero", "1",
       "--micro-batches", "4",   "--iterations", "3",    "-o",       trained});
  ASSERT_EQ(training.code, 0) << training.err;
  for (const char* const pace : {"--sleep", "--timed", "--back-to-back"}) {
    const Answer answer =
        commlens_with({"replay", trained, pace, "-o", directory_.path("again"), "--format", "json"});
    EXPECT_EQ(answer.code, 0) << pace << answer.err;
    EXPECT_TRUE(Json::parse(answer.out)["equal"]);
    EXPECT_EQ(commlens_with({"compare", trained, directory_.path("again")}).code, 0) << pace;
  }
}

TEST_F(ReplayVerb, RunsAsMpiProcesses) {
  const auto module = std::filesystem::path(commlens_binary()).parent_path() / "libcommlens-mpi-openmpi.so";
  if (std::system("command -v mpirun.openmpi >/dev/null") != 0 || !std::filesystem::exists(module)) {
    GTEST_SKIP() << "no Open MPI";
  }
  // Open MPI leaks, which the leak sanitizer would find in our processes.
  const std::vector<Variable> as_root = {{"ASAN_OPTIONS", "detect_leaks=0"},
                                         {"OMPI_ALLOW_RUN_AS_ROOT", "1"},
                                         {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"}};
  const auto run = [&](const std::string& ranks, const std::string& trace) {
    const Words words = {"mpirun.openmpi",
                         "--oversubscribe",
                         "-n",
                         ranks,
                         commlens_binary(),
                         "replay",
                         trace,
                         "--transport",
                         "mpi",
                         "-o",
                         again()};
    RunningProgram program(words, as_root);
    return program.wait();
  };
  const std::string trace =
      messages("pairs.jsonl",
               {{.from = 0, .to = 1, .is_send = true, .start_us = 0, .bytes = 1 << 20},
                {.from = 1, .to = 0, .is_send = false, .start_us = 10, .bytes = 1 << 20},
                {.from = 1, .to = 0, .is_send = true, .start_us = 0, .bytes = 1 << 20},
                {.from = 0, .to = 1, .is_send = false, .start_us = 10, .bytes = 1 << 20}},
               true);
  const Answer other = run("3", trace);
  EXPECT_EQ(other.code, 2);
  EXPECT_NE(other.err.find("the trace has 2 ranks, the launcher started 3"), std::string::npos) << other.err;
  EXPECT_FALSE(std::filesystem::exists(again()));
  const Answer answer = run("2", trace);
  EXPECT_EQ(answer.code, 0) << answer.err;
  EXPECT_EQ(answer.last_line(), "calls: 4 of 4 equal");
}

}  // namespace
}  // namespace commlens
