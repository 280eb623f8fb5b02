#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "commlens/cli/test_support.hpp"
#include "commlens/trace/rank_process.hpp"
#include "commlens/trace/recorder.hpp"
#include "commlens/trace/test_support.hpp"
#include "commlens/trace/trace_file.hpp"

namespace commlens {
namespace {

using test_support::Outcome;
using test_support::run_with;
using test_support::ScratchDirectory;

class CommandHang : public testing::Test {
 protected:
  std::string path(const std::string& name) const { return (directory_ / name).string(); }

  /// A recording of three ranks, by threads of this process, that is still open; rank 1 does not take part in
  /// the second of two calls.
  void start() {
    create_recording(path("t"), {.producer = "test", .description = {}, .framework = {}, .ranks = 3});
    for (std::int64_t rank = 0; rank < 3; ++rank) {
      Recorder& recorder = *recorders_.emplace_back(std::make_unique<Recorder>(path("t"), Rank{rank}));
      const RecordedCall call = {
          .kind = CommKind::all_reduce,
          .dtype = DType::fp64,
          .group = recorder.group({Rank{0}, Rank{1}, Rank{2}}, Axis::world, CommunicatorId{1}),
          .input = Elements{128},
          .output = Elements{128},
          .root = {},
          .blocking = true,
          .tag = {},
          .name = recorder.name("MPI_Allreduce")};
      recorder.set_iteration(0);
      recorder.finish(recorder.begin(call));
      recorder.set_iteration(1);
      if (rank != 1) {
        open_.push_back(recorder.begin(call));
      }
    }
  }

  /// A dump of a flight recorder, whose rank ends its name.
  std::string dump(int rank, int elements, const std::string& state) {
    return directory_.write(
        fmt::format("nccl_trace_rank_{}", rank),
        fmt::format(R"({{"version": "2.4", "pg_config": {{"0": {{"name": "0", "ranks": "[0, 1]"}}}}, )"
                    R"("entries": [{{"profiling_name": "nccl:all_reduce", "process_group": ["0", ""], )"
                    R"("collective_seq_id": 41, "input_sizes": [[{0}]], "input_dtypes": ["Float"], )"
                    R"("output_sizes": [[{0}]], "output_dtypes": ["Float"], "time_created_ns": 5, )"
                    R"("state": "{1}"}}]}})",
                    elements, state));
  }

  ScratchDirectory directory_;
  std::vector<std::unique_ptr<Recorder>> recorders_;
  std::vector<Recorder::Slot> open_;
};

TEST_F(CommandHang, NamesTheMissingRankOfARunningJob) {
  start();
  const Outcome outcome = run_with({"hang", path("t"), "--unchanged-for", "0"});
  EXPECT_EQ(outcome.code, ExitCode::differs);
  EXPECT_EQ(outcome.err, "");
  const std::string expected = fmt::format(
      "missing: 2 ranks wait for rank 1\n"
      "a snapshot of a job that runs\n"
      "\n"
      "rank 1: in no call; host {}, pid {} (running); 2 ranks wait for it directly, 2 in all\n"
      "  last completed: all_reduce #1 on 0-2 (MPI_Allreduce, fp64, 1.00 KiB, iteration 0)\n"
      "stuck at all_reduce #2 on 0-2 (MPI_Allreduce, fp64, 1.00 KiB, iteration 1)\n"
      "  inside: 0 2; not there: 1\n",
      own_host(), getpid());
  EXPECT_EQ(outcome.out.substr(0, expected.size()), expected);
  EXPECT_NE(outcome.out.find(fmt::format("\n  py-spy dump --pid {}\n  gdb -p {} -batch", getpid(), getpid())),
            std::string::npos)
      << outcome.out;
}

TEST_F(CommandHang, HasTheSameAsJson) {
  start();
  const Outcome outcome = run_with({"hang", path("t"), "--unchanged-for", "0.01", "--format", "json"});
  EXPECT_EQ(outcome.code, ExitCode::differs);
  const nlohmann::json found = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(found.at("schema"), "commlens.hang/1");
  EXPECT_EQ(found.at("verdict"), "missing");
  EXPECT_EQ(found.at("job"), "running");
  EXPECT_EQ(found.at("is_snapshot"), true);
  EXPECT_EQ(found.at("unchanged_s"), 0.01);
  EXPECT_EQ(found.at("culprits").at(0).at("rank"), 1);
  EXPECT_EQ(found.at("culprits").at(0).at("pid"), getpid());
  EXPECT_EQ(found.at("stuck_call").at("number"), 2);
  EXPECT_EQ(found.at("stuck_call").at("inside"), nlohmann::json({0, 2}));
  EXPECT_EQ(found.at("stuck_call").at("missing"), nlohmann::json({1}));
  EXPECT_EQ(found.at("stuck_call").at("message_bytes"), 1024);
  EXPECT_EQ(found.at("rows").at(0).at("waits_for"), nlohmann::json({1}));
}

TEST_F(CommandHang, OfAJobThatHasEndedIsNone) {
  start();
  for (std::size_t rank = 0; rank < 3; ++rank) {
    if (rank != 1) {
      recorders_[rank]->finish(open_[rank / 2]);
    }
    recorders_[rank]->close();
  }
  recorders_.clear();
  finish_recording(path("t"));
  const Outcome outcome = run_with({"hang", path("t")});
  EXPECT_EQ(outcome.code, ExitCode::done);
  EXPECT_EQ(outcome.out, "nothing is stuck: no rank waits for another\nall ranks have ended\n");
}

TEST_F(CommandHang, ListsAllRanksAsCsv) {
  start();
  const Outcome outcome = run_with({"hang", path("t"), "--unchanged-for", "0", "--format", "csv"});
  EXPECT_TRUE(outcome.out.starts_with(
      "rank,is_culprit,doing,op,number,waits_for,waiting_directly,waiting_in_all,host,pid,process\n"
      "0,false,in a call,all_reduce,2,1,,,"))
      << outcome.out;
}

TEST_F(CommandHang, ReadsDumpsOfAFlightRecorder) {
  const Outcome outcome = run_with({"hang", dump(0, 8, "started"), dump(1, 16, "started")});
  EXPECT_EQ(outcome.code, ExitCode::differs);
  EXPECT_TRUE(outcome.out.starts_with("mismatch: ranks 0-1 did not make the same call\n")) << outcome.out;
  EXPECT_NE(outcome.out.find("collective #41 of 0-1 is not one call:\n"
                             "  all_reduce, 8 elements of fp32: 0\n"
                             "  all_reduce, 16 elements of fp32: 1\n"),
            std::string::npos)
      << outcome.out;
  EXPECT_EQ(run_with({"hang", dump(0, 8, "completed"), dump(1, 8, "completed")}).code, ExitCode::done);
}

TEST_F(CommandHang, TakesTheStatesOfAJobsNodes) {
  start();
  ASSERT_EQ(run_with({"watch", path("t"), "--once", "--hang-after", "0", "--publish", path("states")}).code,
            ExitCode::differs);
  const Outcome outcome = run_with({"hang", path("states"), "--unchanged-for", "0"});
  EXPECT_EQ(outcome.code, ExitCode::differs);
  EXPECT_EQ(outcome.err, "");
  EXPECT_TRUE(
      outcome.out.starts_with("missing: 2 ranks wait for rank 1\n"
                              "a snapshot of a job that runs"))
      << outcome.out;
  EXPECT_NE(outcome.out.find(fmt::format(
                "\nrank 1: in no call; host {}, pid {} (running); 2 ranks wait for it directly, 2 in all\n",
                own_host(), getpid())),
            std::string::npos)
      << outcome.out;
  EXPECT_NE(outcome.out.find("stuck at all_reduce #2 on 0-2"), std::string::npos) << outcome.out;
  const Outcome as_json = run_with({"hang", path("states"), "--unchanged-for", "0", "--format", "json"});
  const nlohmann::json found = nlohmann::json::parse(as_json.out);
  EXPECT_EQ(found.at("verdict"), "missing");
  EXPECT_EQ(found.at("stuck_call").at("missing"), nlohmann::json({1}));
}

TEST_F(CommandHang, RefusesAMixtureOfPlaces) {
  const std::string agents = directory_.write("agents", "http://127.0.0.1:1/\n");
  EXPECT_EQ(run_with({"hang"}).code, ExitCode::bad_input);
  EXPECT_NE(run_with({"hang"}).err.find("no trace is given"), std::string::npos) << run_with({"hang"}).err;
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"hang", path("t"), "--agents", agents},
        std::vector<std::string>{"hang", path("a"), path("b"), "--agents", agents},
        std::vector<std::string>{"hang", path("t"), "--agents-token-file", agents}}) {
    const Outcome outcome = run_with(words);
    EXPECT_EQ(outcome.code, ExitCode::bad_input) << words.back();
    EXPECT_NE(outcome.err.find("--agents"), std::string::npos) << outcome.err;
  }
}

TEST_F(CommandHang, RefusesWhatSaysNothingOfUnfinishedCalls) {
  Trace trace;
  trace.streams.push_back({{Rank{0}, Rank{0}}, {}, {}, {}});
  write_trace(trace, directory_ / "predicted");
  const std::string text = directory_.write("text", "hello");
  for (const auto& [words, message] :
       {std::pair{std::vector<std::string>{"hang", path("predicted")}, "no recording"},
        std::pair{std::vector<std::string>{"hang", path("none")}, "none"},
        std::pair{std::vector<std::string>{"hang", text}, "neither the directory of a recording"},
        std::pair{std::vector<std::string>{"hang", dump(0, 8, "started"), path("nccl_trace_rank_0")},
                  "two files are of rank 0"}}) {
    const Outcome outcome = run_with(words);
    EXPECT_EQ(outcome.code, ExitCode::bad_input) << words.back();
    EXPECT_NE(outcome.err.find(message), std::string::npos) << outcome.err;
  }
}

}  // namespace
}  // namespace commlens
