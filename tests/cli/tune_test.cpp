// `commlens tune` over threads, as a user runs it; tests/mpi has it over MPI.
#include "commlens/app/tune.hpp"

#include <nlohmann/json.hpp>

#include "commlens/app/job_transports.hpp"
#include "commlens/base/file.hpp"
#include "commlens/transport/transport_table.hpp"
#include "tests/cli/program.hpp"

namespace commlens {
namespace {

using Words = std::vector<std::string>;

/// A job of few small messages.
Words small_job(const Words& more) {
  Words words{"tune", "--messages",  "19M",      "--layers", "2",    "--hidden",      "32", "--heads",
              "4",    "--seq",       "16",       "--vocab",  "256",  "--dp",          "2",  "--zero",
              "1",    "--framework", "commlens", "--dtype",  "fp32", "--micro-batch", "1",  "--rounds",
              "60"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

TEST(TuneVerb, ReportsEveryMessageAndWritesATable) {
  const ScratchDirectory directory;
  const std::string table = directory.path("table.csv");
  const Answer answer = commlens_with(small_job({"--write-transports", table, "--format", "json"}));
  ASSERT_EQ(answer.code, 0) << answer.err;
  const auto json = nlohmann::json::parse(answer.out);
  EXPECT_EQ(json.at("schema"), "commlens.tune/1");
  EXPECT_EQ(json.at("transport"), "threads");
  EXPECT_EQ(json.at("written"), nlohmann::json({table}));
  ASSERT_FALSE(json.at("rows").empty());
  std::size_t rules = 0;
  for (const auto& row : json.at("rows")) {
    EXPECT_EQ(row.at("algorithm_count"), row.at("op") == "all_reduce" ? 1 : 0) << row;
    EXPECT_GT(row.at("default_s"), 0.0) << row;
    rules += row.at("algorithm").is_null() || row.at("reason") != "" ? 0 : 1;
  }
  const Result<TransportTable> written = read_transport_table(table);
  ASSERT_TRUE(written) << written.error().message;
  EXPECT_EQ(written->entries.size(), rules);
  EXPECT_EQ(json.at("verdict"), rules == 0 ? "no rule" : "rules");
}

TEST(TuneVerb, StatesTheGainOrNoRule) {
  const Answer answer = commlens_with(small_job({}));
  ASSERT_EQ(answer.code, 0) << answer.err;
  EXPECT_TRUE(answer.out.find("no rule: ") != std::string::npos ||
              answer.out.find("in rounds that did not choose\n") != std::string::npos)
      << answer.out;
}

void expect_refusal(const Words& more, const std::string& says) {
  const Answer answer = commlens_with(small_job(more));
  EXPECT_EQ(answer.code, 2) << says;
  EXPECT_NE(answer.err.find(says), std::string::npos) << answer.err;
}

TEST(TuneVerb, ThatIsStoppedDecidesNothingAndKeepsEarlierFiles) {
  const ScratchDirectory directory;
  TuneRequest request;
  request.messages.input = {"19M"};
  request.messages.framework = "commlens";
  request.messages.overrides.dp = 2;
  request.messages.overrides.layers = 1;
  request.messages.overrides.hidden = 32;
  request.messages.overrides.heads = 4;
  request.messages.overrides.seq = 16;
  request.messages.overrides.vocab = 256;
  request.files.transports = directory.write("table.csv", "of an earlier run\n");
  request.stop_requested = [] { return true; };
  const Result<TuneResult> result = tune_calls(request);
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_TRUE(result->tuned.was_stopped);
  EXPECT_TRUE(result->written.empty());
  EXPECT_EQ(read_text_file(request.files.transports, 1 << 20).value(), "of an earlier run\n");
  EXPECT_NE(rendered(*result, Format::table).find("no verdict, and no file is written"), std::string::npos);
  EXPECT_EQ(nlohmann::json::parse(rendered(*result, Format::json)).at("verdict"), "stopped");
}

TEST(TuneVerb, RefusesRulesOfALibraryThatItDoesNotTime) {
  expect_refusal({"--write-openmpi", "rules.conf"}, "--write-openmpi: only a job over Open MPI");
  expect_refusal({"--write-mpich", "rules.json"}, "--write-mpich: only a job over MPICH");
  expect_refusal({"--write-nccl", "rules.csv"}, "--write-nccl: only a job over NCCL");
}

TEST(TuneVerb, RefusesWhatCannotBe) {
  expect_refusal({"--min-gain", "much"}, "--min-gain much: write a share, as 5% or 0.05");
  expect_refusal({"--min-gain", "100%"}, "--min-gain: a share of the default's time");
  expect_refusal({"--write-transports", "/nowhere/table.csv"}, "--write-transports");
  expect_refusal({"--transport", "mpi"}, "no MPI launcher started this process");
}

using TrainWithTransports = TrainerTest;

std::vector<double> losses_with(const Words& more) {
  Words words{"train",   "19M",  "--layers",      "2",   "--hidden",     "32", "--heads",  "4",
              "--seq",   "16",   "--vocab",       "256", "--ranks",      "2",  "--zero",   "0",
              "--dtype", "fp32", "--micro-batch", "1",   "--iterations", "3",  "--format", "json"};
  words.insert(words.end(), more.begin(), more.end());
  const Answer answer = commlens_with(words);
  std::vector<double> losses;
  if (answer.code == 0) {
    const auto json = nlohmann::json::parse(answer.out);
    for (const auto& iteration : json.at("iterations")) {
      losses.push_back(iteration.at("loss").get<double>());
    }
  }
  EXPECT_EQ(answer.code, 0) << answer.err;
  return losses;
}

/// Threads add in group order with either algorithm, so that results are equal to the last bit.
TEST_F(TrainWithTransports, LearnsTheSameByAnotherAlgorithm) {
  const std::string table = directory_.write("table.csv",
                                             "op,min_bytes,max_bytes,ranks,transport,algorithm\n"
                                             "all_reduce,16,,2,threads,reduce_scatter_all_gather\n");
  const std::vector<double> usual = losses_with({"-o", directory_.path("usual")});
  EXPECT_EQ(usual.size(), 3U);
  EXPECT_EQ(losses_with({"-o", directory_.path("mixed"), "--transports", table}), usual);
}

TEST_F(TrainWithTransports, RefusesATransportThatTheJobDoesNotHave) {
  const std::string table =
      directory_.write("table.csv", "op,min_bytes,max_bytes,ranks,transport\nall_reduce,0,,,mpi\n");
  const Answer answer =
      commlens_with({"train", "19M", "--ranks", "2", "--dtype", "bf16", "--transports", table});
  EXPECT_EQ(answer.code, 2);
  EXPECT_NE(answer.err.find("line 2: this job has no transport mpi; it has threads"), std::string::npos)
      << answer.err;
}

TEST_F(TrainWithTransports, RefusesAnAlgorithmThatThreadsDoNotHave) {
  const std::string table = directory_.write("table.csv",
                                             "op,min_bytes,max_bytes,ranks,transport,algorithm\n"
                                             "all_reduce,0,,,threads,magic\n");
  for (const char* const verb : {"train", "replay", "bench"}) {
    const Answer answer = commlens_with({verb, verb == std::string("bench") ? "all_reduce" : "19M", "--ranks",
                                         "2", "-o", directory_.path("none"), "--transports", table});
    EXPECT_EQ(answer.code, 2) << verb;
    EXPECT_NE(answer.err.find("line 2: this transport has no algorithm magic"), std::string::npos)
        << answer.err;
  }
}

// NCCL is opened by ranks that have begun; what its table names is known before.
TEST_F(TrainWithTransports, RefusesAnAlgorithmThatNcclDoesNotHave) {
  const auto refusal = [&](const std::string& line) {
    const std::string file =
        directory_.write("nccl.csv", "op,min_bytes,max_bytes,ranks,transport,algorithm\n" + line + "\n");
    const auto table = table_of_transports(file, "nccl");
    return table ? "" : table.error().message.substr(table.error().message.find("line 2"));
  };
  EXPECT_EQ(refusal("all_reduce,0,,,nccl,ring/simple"), "");
  EXPECT_EQ(refusal("all_reduce,0,,,nccl,magic").substr(0, 57),
            "line 2: NCCL has no algorithm magic of all_reduce; choose");
  EXPECT_EQ(refusal("send,0,,,nccl,ring/simple"),
            "line 2: NCCL has no algorithm ring/simple of send; leave the column empty");
}

TEST_F(TrainWithTransports, BenchTimesAnotherAlgorithm) {
  const std::string table = directory_.write("table.csv",
                                             "op,min_bytes,max_bytes,ranks,transport,algorithm\n"
                                             "all_reduce,16,,2,threads,reduce_scatter_all_gather\n");
  const Words bench = {"bench", "all_reduce", "--sizes",  "4K",  "--time",
                       "1ms",   "--verify",   "--format", "json"};
  Words with_table = bench;
  with_table.insert(with_table.end(), {"--transports", table, "--append", directory_.path("result.json")});
  const Answer answer = commlens_with(with_table);
  ASSERT_EQ(answer.code, 0) << answer.err;
  const auto json = nlohmann::json::parse(answer.out);
  EXPECT_EQ(json.at("transports"), "table.csv");
  EXPECT_EQ(json.at("rows").at(0).at("wrong_elements"), 0);
  Words without = bench;
  without.insert(without.end(), {"--append", directory_.path("result.json")});
  const Answer mixed = commlens_with(without);
  EXPECT_EQ(mixed.code, 2);
  EXPECT_NE(
      mixed.err.find("holds launches with the table table.csv, and this job has no table of transports"),
      std::string::npos)
      << mixed.err;
}

TEST_F(TrainWithTransports, ReplaysWithAnotherAlgorithm) {
  const std::string table = directory_.write("table.csv",
                                             "op,min_bytes,max_bytes,ranks,transport,algorithm\n"
                                             "all_reduce,16,,2,threads,reduce_scatter_all_gather\n");
  const Answer answer = commlens_with({"replay", "19M", "--ranks", "2", "--layers", "2", "--hidden", "32",
                                       "--heads", "4", "--seq", "16", "--vocab", "256", "-o",
                                       directory_.path("replayed"), "--transports", table});
  EXPECT_EQ(answer.code, 0) << answer.err;  // the calls equal those of the prediction
}

}  // namespace
}  // namespace commlens
