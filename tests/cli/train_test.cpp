// Real runs of `commlens train`, on models that take milliseconds.
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/resource.h>

#include "tests/cli/program.hpp"

namespace commlens {
namespace {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

class Training : public TrainerTest {
 protected:
  /// A small GPT under ZeRO-3 on four threads, recorded in `trace`; flags of `more` replace those.
  Words command(const Words& more = {}) const {
    const std::vector<Variable> flags = {{"--layers", "2"},      {"--hidden", "32"},
                                         {"--heads", "4"},       {"--seq", "16"},
                                         {"--vocab", "256"},     {"--dtype", "fp32"},
                                         {"--ranks", "4"},       {"--zero", "3"},
                                         {"--micro-batch", "1"}, {"--persistence-threshold", "100"},
                                         {"--iterations", "3"},  {"-o", trace()}};
    Words words = {"train", "19M"};
    for (const auto& [flag, value] : flags) {
      if (std::find(more.begin(), more.end(), flag) == more.end()) {
        words.insert(words.end(), {flag, value});
      }
    }
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  Answer train(const Words& more = {}, const std::vector<Variable>& environment = {}) const {
    return commlens_with(command(more), environment);
  }
  Json train_json(Words more) const {
    more.insert(more.end(), {"--format", "json"});
    const Answer answer = train(more);
    EXPECT_EQ(answer.code, 0) << answer.err;
    return Json::parse(answer.out);
  }
  std::string trace() const { return directory_.path("trace"); }
  /// A training that runs until it is stopped, after its head and its first `iterations` iterations.
  std::unique_ptr<RunningProgram> running(const Words& more, std::size_t iterations) const {
    Words flags = {"--iterations", "1000000"};
    flags.insert(flags.end(), more.begin(), more.end());
    Words words = command(flags);
    words.insert(words.begin(), commlens_binary());
    auto program = std::make_unique<RunningProgram>(words, std::vector<Variable>{});
    constexpr std::size_t head_lines = 6;
    program->read_lines(head_lines + iterations);
    return program;
  }
};

/// "prediction: N of N calls equal" with N of at least one.
void expect_equal_verdict(const Answer& answer) {
  long long equal = 0;
  long long calls = 0;
  ASSERT_EQ(std::sscanf(answer.last_line().c_str(), "prediction: %lld of %lld calls equal", &equal, &calls),
            2)
      << answer.out << answer.err;
  EXPECT_EQ(equal, calls);
  EXPECT_GT(calls, 0);
}

TEST_F(Training, EndsWithThePredictionThatIsEqual) {
  const Answer answer = train();
  EXPECT_EQ(answer.code, 0) << answer.err;
  expect_equal_verdict(answer);
  EXPECT_NE(answer.out.find("TFLOP/s"), std::string::npos);
  EXPECT_NE(answer.out.find("trace: " + trace()), std::string::npos) << answer.out;
}

// The second training finds its checkpoint damaged when the ranks read it, before their first call.
TEST_F(Training, KeepsTheEarlierTraceUntilACallIsRecorded) {
  ASSERT_EQ(train().code, 0);
  const auto iterations = [&] {
    return Json::parse(commlens_with({"summary", trace(), "--format", "json"}).out)["iterations"];
  };
  ASSERT_EQ(iterations().size(), 3u);
  const Words saved = {"--save", directory_.path("saved"), "-o", directory_.path("other")};
  ASSERT_EQ(train(saved).code, 0);
  std::filesystem::resize_file(directory_.path("saved/iteration-3/rank-0.bin"), 8);
  const Answer failed = train({"--resume", directory_.path("saved"), "--iterations", "5"});
  EXPECT_EQ(failed.code, 3) << failed.out << failed.err;
  EXPECT_EQ(iterations().size(), 3u);
  ASSERT_EQ(train({"--iterations", "2"}).code, 0);
  EXPECT_EQ(iterations().size(), 2u);
}

// The default directory of `record` belongs to another job.
TEST_F(Training, HasADirectoryOfItsOwnByDefault) {
  const Answer help = commlens_with({"train", "--help"});
  const Answer of_record = commlens_with({"record", "--help"});
  EXPECT_NE(help.out.find("commlens-training"), std::string::npos) << help.out;
  EXPECT_EQ(of_record.out.find("commlens-training"), std::string::npos) << of_record.out;
}

TEST_F(Training, MarksTheColdIterationAndLeavesItOutOfTheMean) {
  const Answer answer = train();
  const std::size_t cold = answer.out.find("  cold\n");
  ASSERT_NE(cold, std::string::npos) << answer.out;
  EXPECT_EQ(answer.out.find("  cold\n", cold + 1), std::string::npos);
  EXPECT_NE(answer.out.find("  of 2 warm\n"), std::string::npos) << answer.out;
}

// The available attention depends on the LibTorch of this build.
TEST_F(Training, SaysWhichAttentionItHas) {
  EXPECT_NE(train().out.find("; eager attention;"), std::string::npos);
  const Answer asked = train({"--attention", "flash"});
  EXPECT_EQ(asked.code, 0) << asked.err;
  expect_equal_verdict(asked);
  const bool is_missing = asked.err.find("has no fused attention") != std::string::npos;
  EXPECT_EQ(asked.err.find("training with eager attention, which keeps the scores") != std::string::npos,
            is_missing)
      << asked.err;
  const char* const used = is_missing ? "eager" : "flash";
  EXPECT_NE(asked.out.find(std::string("; ") + used + " attention;"), std::string::npos) << asked.out;
  EXPECT_EQ(train_json({"--attention", "flash"})["attention"], used);
}

TEST_F(Training, LeavesATraceThatOtherVerbsRead) {
  ASSERT_EQ(train().code, 0);
  const Answer summary = commlens_with({"summary", trace(), "--format", "json"});
  ASSERT_EQ(summary.code, 0) << summary.err;
  const Json json = Json::parse(summary.out);
  EXPECT_EQ(json["trace_source"], "recorded");
  EXPECT_EQ(json["rank_count"], 4);
  EXPECT_EQ(json["iterations"], (Json{0, 1, 2}));
}

TEST_F(Training, JsonHasEveryIterationAndTheVerdict) {
  const Json json = train_json({"--clip", "1"});
  EXPECT_EQ(json["schema"], "commlens.train/2");
  EXPECT_EQ(json["layout"]["ranks"], 4);
  EXPECT_EQ(json["layout"]["zero"], 3);
  EXPECT_EQ(json["data"], "synthetic tokens");
  ASSERT_EQ(json["iterations"].size(), 3u);
  EXPECT_EQ(json["iterations"][0]["cold"], true);
  EXPECT_EQ(json["iterations"][2]["cold"], false);
  EXPECT_EQ(json["iterations"][2]["iteration"], 2);
  EXPECT_GT(json["iterations"][2]["loss"], 0);
  EXPECT_GT(json["iterations"][2]["gradient_norm"], 0);
  EXPECT_GT(json["iterations"][2]["time_s"], 0);
  EXPECT_EQ(json["totals"]["warm_iterations"], 2);
  EXPECT_EQ(json["dropped_calls_whole_trace"], 0);
  EXPECT_GT(json["prediction"]["calls"], 0);
  EXPECT_EQ(json["prediction"]["equal"], json["prediction"]["calls"]);
}

TEST_F(Training, CsvHasARowPerIteration) {
  const Answer answer = train({"--format", "csv"});
  EXPECT_EQ(answer.code, 0) << answer.err;
  EXPECT_EQ(answer.out.rfind("iteration,cold,loss,", 0), 0u);
  EXPECT_EQ(std::count(answer.out.begin(), answer.out.end(), '\n'), 4);
  EXPECT_EQ(answer.err.rfind("prediction: ", 0), 0u) << answer.err;
}

TEST_F(Training, OfOneRankSendsNothing) {
  const Answer answer = train({"--ranks", "1", "--zero", "0"});
  EXPECT_EQ(answer.code, 0) << answer.err;
  EXPECT_EQ(answer.last_line(), "prediction: one rank makes no calls, and none were recorded");
}

TEST_F(Training, OfOneIterationHasNoMean) {
  const Answer answer = train({"--iterations", "1"});
  EXPECT_EQ(answer.code, 0) << answer.err;
  EXPECT_EQ(answer.out.find("mean"), std::string::npos) << answer.out;
  expect_equal_verdict(answer);
}

TEST_F(Training, TakesAText) {
  std::string text;
  for (int line = 0; line < 400; ++line) {
    text += "In the beginning was the word.\n";
  }
  const Json json =
      train_json({"--data", directory_.write("book.txt", text), "--iterations", "12", "--lr", "0.01"});
  EXPECT_EQ(json["data"], "book.txt, 12,400 bytes");
  EXPECT_LT(json["iterations"][11]["loss"], json["iterations"][0]["loss"]);
}

TEST_F(Training, ResumesWithTheNextIteration) {
  const Words constant = {"--lr", "0.001", "--min-lr", "0.001", "--iterations"};
  Words whole = constant;
  whole.insert(whole.end(), {"5"});
  const Json uninterrupted = train_json(whole);
  Words start = constant;
  start.insert(start.end(), {"3", "--save", directory_.path("checkpoint")});
  train_json(start);
  whole.insert(whole.end(), {"--resume", directory_.path("checkpoint")});
  const Json resumed = train_json(whole);
  ASSERT_EQ(resumed["iterations"].size(), 2u);
  EXPECT_EQ(resumed["iterations"][0]["iteration"], 3);
  EXPECT_EQ(resumed["iterations"][0]["cold"], true);
  for (std::size_t at = 0; at < 2; ++at) {
    EXPECT_EQ(resumed["iterations"][at]["loss"], uninterrupted["iterations"][3 + at]["loss"]);
  }
  EXPECT_EQ(resumed["prediction"]["equal"], resumed["prediction"]["calls"]);
}

TEST_F(Training, StopsByRequestAfterTheIteration) {
  const auto program = running({"--save", directory_.path("checkpoint")}, 2);
  program->signal(SIGINT);
  const Answer answer = program->wait();
  EXPECT_EQ(answer.code, 128 + SIGINT) << answer.err;
  EXPECT_NE(answer.out.find("\nstopped by request after iteration "), std::string::npos) << answer.out;
  EXPECT_TRUE(std::filesystem::exists(directory_.path("checkpoint/latest")));
  expect_equal_verdict(answer);
}

TEST_F(Training, OnADataFileThatIsCutEndsWithOneLine) {
  const std::string text = directory_.write("text.txt", std::string(100'000, 'x'));
  const auto program = running({"--data", text}, 1);
  std::filesystem::resize_file(text, 1);
  const Answer answer = program->wait();
  EXPECT_EQ(answer.code, 3);
  EXPECT_NE(answer.err.find("text.txt: the file became shorter during the training\n"), std::string::npos)
      << answer.err;
}

TEST_F(Training, ASecondJobOnOneCheckpointDirectoryIsRefused) {
  const auto first = running({"--save", directory_.path("checkpoint")}, 1);
  const Answer second = train({"--save", directory_.path("checkpoint"), "-o", directory_.path("other")});
  EXPECT_EQ(second.code, 2);
  EXPECT_NE(second.err.find("writes its checkpoints there; give another directory"), std::string::npos)
      << second.err;
  first->signal(SIGTERM);
  EXPECT_EQ(first->wait().code, 128 + SIGTERM);
  EXPECT_EQ(train({"--save", directory_.path("checkpoint"), "-o", directory_.path("other")}).code, 0);
}

/// Whichever is first, each of two jobs that start at once records all its calls or is refused.
TEST_F(Training, ASecondJobOnOneTraceDirectoryIsRefused) {
  for (int round = 0; round < 3; ++round) {
    Words words = command({"--iterations", "40"});
    words.insert(words.begin(), commlens_binary());
    RunningProgram first(words, {});
    RunningProgram second(words, {});
    int recorded = 0;
    for (const Answer& answer : {first.wait(), second.wait()}) {
      if (answer.code == 0) {
        expect_equal_verdict(answer);
        ++recorded;
      } else {
        EXPECT_NE(answer.err.find("another job is being recorded there"), std::string::npos)
            << answer.code << answer.err << answer.out;
      }
    }
    EXPECT_GE(recorded, 1);
  }
}

TEST_F(Training, OfATinyModelHasOneThreadARank) {
  EXPECT_EQ(train_json({"--ranks", "1"}).at("threads_per_rank"), 1);
}

TEST_F(Training, TensorsAtTheirPeakStandBesideThePrediction) {
  const Json memory = train_json({}).at("memory");
  const auto peaks = memory.at("peak_bytes_per_rank").get<std::vector<std::int64_t>>();
  ASSERT_EQ(peaks.size(), 4U);
  const double most = static_cast<double>(*std::max_element(peaks.begin(), peaks.end()));
  EXPECT_NEAR(memory.at("predicted_bytes_per_rank").get<double>() / most, 1.0, 0.1);
  EXPECT_NE(train().out.find("memory: at most "), std::string::npos);
}

TEST_F(Training, OverMpiIsTheSame) {
  const auto module = std::filesystem::path(commlens_binary()).parent_path() / "libcommlens-mpi-openmpi.so";
  if (std::system("command -v mpirun.openmpi >/dev/null") != 0 || !std::filesystem::exists(module)) {
    GTEST_SKIP() << "no Open MPI here";
  }
  Words words = {"mpirun.openmpi", "--oversubscribe", "-n", "2", commlens_binary()};
  const Words rest = command({"--ranks", "2", "--transport", "mpi"});
  words.insert(words.end(), rest.begin(), rest.end());
  const Answer answer =
      RunningProgram(words, {{"OMPI_ALLOW_RUN_AS_ROOT", "1"}, {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"}})
          .wait();
  EXPECT_EQ(answer.code, 0) << answer.err;
  const std::size_t title = answer.out.find("iteration  ");
  ASSERT_NE(title, std::string::npos) << answer.out;
  EXPECT_EQ(answer.out.find("iteration  ", title + 1), std::string::npos)
      << "one rank prints: " << answer.out;
  expect_equal_verdict(answer);
}

TEST_F(Training, FailureOfARankIsOneLineThatNamesIt) {
  const Answer answer = train({}, {{"COMMLENS_FAULT", "rank=2,iteration=1"}});
  EXPECT_EQ(answer.code, 3);
  EXPECT_EQ(answer.err.rfind("commlens: rank 2: ", 0), 0u) << answer.err;
  EXPECT_EQ(std::count(answer.err.begin(), answer.err.end(), '\n'), 1) << answer.err;
  const Answer summary = commlens_with({"summary", trace(), "--iteration", "0", "--format", "json"});
  EXPECT_EQ(summary.code, 0) << summary.err;
  EXPECT_EQ(Json::parse(summary.out)["rank_count"], 4);
}

/// A rank that is stuck outside of communication cannot be notified: its process ends nevertheless.
TEST_F(Training, AStalledRankIsNamedWithTheCallThatWaitsForIt) {
  const Answer answer = train({"--timeout", "1s"}, {{"COMMLENS_FAULT", "rank=2,iteration=1,kind=stall"}});
  EXPECT_EQ(answer.code, 3);
  EXPECT_EQ(std::count(answer.err.begin(), answer.err.end(), '\n'), 1) << answer.err;
  EXPECT_NE(answer.err.find(": waited 1.00 s for all_reduce of 1 fp32 \"gradient.norm\", call "),
            std::string::npos)
      << answer.err;
  EXPECT_NE(answer.err.find(" of ranks 0-3; missing: rank 2 (busy outside of communication)"),
            std::string::npos)
      << answer.err;
  const Answer summary = commlens_with({"summary", trace(), "--iteration", "0", "--format", "json"});
  EXPECT_EQ(summary.code, 0) << summary.err;
  EXPECT_EQ(Json::parse(summary.out)["rank_count"], 4);
}

TEST_F(Training, ATimeoutThatIsNoTimeIsRefused) {
  const Answer answer = train({"--timeout", "soon"});
  EXPECT_EQ(answer.code, 2);
  EXPECT_NE(answer.err.find("--timeout: 'soon' is not a time"), std::string::npos) << answer.err;
}

TEST_F(Training, LossThatIsNoNumberIsAFailure) {
  const Answer answer = train({}, {{"COMMLENS_FAULT", "rank=1,iteration=1,kind=nan"}});
  EXPECT_EQ(answer.code, 3);
  EXPECT_NE(answer.err.find("loss is nan in iteration 1"), std::string::npos) << answer.err;
}

TEST_F(Training, ADirectoryThatCannotBeMadeIsRefused) {
  const std::string file = directory_.write("file", "x");
  const Answer answer = train({"-o", file + "/trace"});
  EXPECT_EQ(answer.code, 2);
  EXPECT_EQ(std::count(answer.err.begin(), answer.err.end(), '\n'), 1) << answer.err;
  EXPECT_NE(answer.err.find(file), std::string::npos) << answer.err;
}

TEST_F(Training, DoesNotReplaceWhatIsNoTrace) {
  std::filesystem::create_directories(directory_.path("mine"));
  directory_.write("mine/thesis.txt", "years");
  const Answer answer = train({"-o", directory_.path("mine")});
  EXPECT_EQ(answer.code, 2);
  EXPECT_NE(answer.err.find("-o " + directory_.path("mine")), std::string::npos) << answer.err;
  EXPECT_TRUE(std::filesystem::exists(directory_.path("mine/thesis.txt")));
}

/// No file of a program started meanwhile may become longer than `bytes`.
class FileLimit {
 public:
  explicit FileLimit(rlim_t bytes) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit = {.rlim_cur = bytes, .rlim_max = before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileLimit() { setrlimit(RLIMIT_FSIZE, &before_); }
  FileLimit(const FileLimit&) = delete;
  FileLimit& operator=(const FileLimit&) = delete;

 private:
  rlimit before_ = {};
};

// 300 iterations make 4,500 calls of 32 bytes on each rank: 144 kB. What the recorder does on a full disk
// is the same and has its own test, recorder_faults_test.
TEST_F(Training, GoesOnWithoutRecordingWhenTheFilesCanGrowNoFurther) {
  const FileLimit limit(100'000);
  const Answer answer = train({"--ranks", "2", "--iterations", "300"});
  EXPECT_EQ(answer.code, 0) << answer.err;
  EXPECT_NE(answer.last_line().find("prediction: not compared"), std::string::npos) << answer.last_line();
  EXPECT_NE(answer.out.find("\n      299  "), std::string::npos) << "all iterations ran";
}

}  // namespace
}  // namespace commlens
