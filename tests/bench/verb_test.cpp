// commlens bench as a user runs it: stopped, killed, over MPI, with wrong results.
#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "commlens/comm/volume.hpp"
#include "commlens/formats/import_any.hpp"
#include "tests/cli/program.hpp"

namespace commlens {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using Words = std::vector<std::string>;

const std::vector<Variable>& as_root() {
  // Open MPI leaks, which the leak sanitizer would find in our processes.
  static const std::vector<Variable> variables = {{"ASAN_OPTIONS", "detect_leaks=0"},
                                                  {"OMPI_ALLOW_RUN_AS_ROOT", "1"},
                                                  {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"}};
  return variables;
}

bool has_open_mpi() {
  return fs::exists(fs::path(commlens_binary()).parent_path() / "libcommlens-mpi-openmpi.so") &&
         std::system("command -v mpirun.openmpi >/dev/null") == 0;
}

bool has_capture() {
  return fs::exists(fs::path(commlens_binary()).parent_path() / "libcommlens-capture-mpi-openmpi.so");
}

/// `commlens bench ARGUMENTS…` on two processes.
Words on_two(const Words& arguments) {
  Words command = {"mpirun.openmpi",  "--oversubscribe", "-n",          "2",
                   commlens_binary(), "bench",           "--transport", "mpi"};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return command;
}

Answer answer_of(const Words& command) { return RunningProgram(command, as_root()).wait(); }

Json json_in(const fs::path& file) {
  std::ifstream stream(file);
  return Json::parse(stream, nullptr, false);
}

/// Waits until a file has a row with samples.
bool appears(const fs::path& file) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (std::chrono::steady_clock::now() < until) {
    const Json json = fs::exists(file) ? json_in(file) : Json();
    if (json.is_object() && !json.at("rows").empty()) {
      return true;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));  // leaves the cores to the ranks
  }
  return false;
}

/// Processes that were started for `marker`, an argument of theirs, by a process that is no launcher.
std::vector<pid_t> processes_with(const std::string& marker) {
  std::vector<pid_t> found;
  for (const fs::directory_entry& process : fs::directory_iterator("/proc")) {
    const std::string name = process.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) {
      continue;
    }
    std::ifstream stream(process.path() / "cmdline");
    std::ostringstream command;
    command << stream.rdbuf();
    if (command.str().find(marker) != std::string::npos &&
        command.str().find("mpirun") == std::string::npos) {
      found.push_back(std::stoi(name));
    }
  }
  return found;
}

TEST(BenchVerb, StoppedHasWhatWasDone) {
  const ScratchDirectory directory;
  const std::string file = directory.path("result.json");
  RunningProgram program({commlens_binary(), "bench", "all_reduce", "--ranks", "2", "--sizes", "256K:1M:+16K",
                          "--time", "600s", "--json", file},
                         {});
  ASSERT_TRUE(appears(file));
  program.signal(SIGINT);
  const Answer answer = program.wait();
  EXPECT_EQ(answer.code, 128 + SIGINT) << answer.err;
  EXPECT_NE(answer.out.find("stopped: these are the samples until then"), std::string::npos) << answer.out;
  const Json json = json_in(file);
  EXPECT_TRUE(json.at("partial"));
  EXPECT_GE(json.at("rows").at(0).at("samples"), 1);
}

TEST(BenchVerb, PrintsAResultThatAFileHasNoRoomFor) {
  const Answer answer = commlens_with({"bench", "barrier", "--time", "1ms", "--json", "/dev/full"});
  EXPECT_EQ(answer.code, 3);
  EXPECT_NE(answer.out.find("barrier"), std::string::npos) << answer.out;
  EXPECT_NE(answer.err.find("commlens: cannot write /dev/full: No space left on device"), std::string::npos)
      << answer.err;
}

TEST(BenchVerb, LeavesAValidFileWhenARankIsKilled) {
  if (!has_open_mpi()) {
    GTEST_SKIP() << "no Open MPI here";
  }
  const ScratchDirectory directory;
  const std::string file = directory.path("result.json");
  RunningProgram program(on_two({"all_reduce", "--sizes", "256K:1M:+16K", "--time", "600s", "--json", file}),
                         as_root());
  ASSERT_TRUE(appears(file));
  const std::vector<pid_t> ranks = processes_with(file);
  ASSERT_EQ(ranks.size(), 2U);
  kill(ranks.back(), SIGKILL);
  EXPECT_NE(program.wait().code, 0);
  const Json json = json_in(file);
  ASSERT_TRUE(json.is_object());
  EXPECT_TRUE(json.at("partial"));
  EXPECT_GE(json.at("rows").at(0).at("samples"), 1);
}

TEST(BenchVerb, RunsOverMpi) {
  if (!has_open_mpi()) {
    GTEST_SKIP() << "no Open MPI here";
  }
  const Answer answer = answer_of(on_two({"all_reduce", "send", "--sizes", "8,4K", "--time", "100ms",
                                          "--verify", "--seed", "7", "--format", "json"}));
  ASSERT_EQ(answer.code, 0) << answer.err;
  const Json json = Json::parse(answer.out);
  EXPECT_EQ(json.at("transport"), "mpi");
  EXPECT_EQ(json.at("rows").size(), 4U);
  EXPECT_EQ(json.at("launches").at(0).at("seed"), 7);
  for (const Json& row : json.at("rows")) {
    EXPECT_EQ(row.at("wrong_elements"), 0);
    EXPECT_GT(row.at("p50_ns"), 0);
  }
}

TEST(BenchVerb, EndsWithTwoAxesAtOnceOverMpi) {
  if (!has_open_mpi()) {
    GTEST_SKIP() << "no Open MPI here";
  }
  Words command = on_two({"all_reduce", "--sizes", "64K", "--mesh", "dp=2,tp=2", "--groups", "tp+dp",
                          "--time", "100ms", "--verify"});
  command[3] = "4";
  const Answer answer = answer_of(command);
  EXPECT_EQ(answer.code, 0) << answer.err;
  EXPECT_NE(answer.out.find("every element is right"), std::string::npos) << answer.out;
}

TEST(BenchVerb, FitsAMachineToItsTimes) {
  if (!has_open_mpi()) {
    GTEST_SKIP() << "no Open MPI here";
  }
  const ScratchDirectory directory;
  const std::string machine = directory.path("machine.json");
  const Answer answer = answer_of(on_two(
      {"all_reduce", "--sizes", "8:1M:x8", "--time", "50ms", "--fit", machine, "--machine", "frontier"}));
  ASSERT_EQ(answer.code, 0) << answer.err;
  EXPECT_NE(answer.out.find("fitted  mpi      all_reduce"), std::string::npos) << answer.out;
  const Answer cost = commlens_with(
      {"cost", "all_reduce", "--machine", machine, "--library", "mpi", "--ranks", "2", "--bytes", "4KiB"});
  EXPECT_EQ(cost.code, 0) << cost.err;
}

TEST(BenchVerb, RefusesToCheckOneLaunch) {
  const ScratchDirectory directory;
  const std::string file = directory.path("base.json");
  EXPECT_EQ(commlens_with({"bench", "all_reduce", "--sizes", "8", "--time", "10ms", "--json", file}).code, 0);
  const Answer answer =
      commlens_with({"bench", "all_reduce", "--sizes", "8", "--launches", "10", "--check", file});
  EXPECT_EQ(answer.code, 2);
  EXPECT_NE(answer.err.find("has 1 launch, and launches differ"), std::string::npos) << answer.err;
}

// Both processes read the messages; only the first one finds that the file is no result.
TEST(BenchVerb, SaysOverMpiWhyOneProcessRefuses) {
  if (!has_open_mpi()) {
    GTEST_SKIP() << "no Open MPI here";
  }
  const ScratchDirectory directory;
  const std::string file = directory.write("base.json", "{}");
  for (const std::string flag : {"--append", "--check"}) {
    const Answer answer = answer_of(on_two({"all_reduce", "--sizes", "8", flag, file}));
    EXPECT_EQ(answer.code, 2) << flag;
    const std::string reason = "base.json: is no result of bench";
    const std::size_t at = answer.err.find(reason);
    ASSERT_NE(at, std::string::npos) << answer.err;
    EXPECT_EQ(answer.err.find(reason, at + 1), std::string::npos) << "said once:\n" << answer.err;
  }
}

// Each process has its own file by that name: of the second one it is no configuration.
TEST(BenchVerb, SaysOverMpiWhyAProcessButTheFirstRefuses) {
  if (!has_open_mpi()) {
    GTEST_SKIP() << "no Open MPI here";
  }
  const ScratchDirectory directory;
  const std::string script =
      "if [ \"$OMPI_COMM_WORLD_RANK\" = 1 ]; then set -- \"$1\" none.yml; else set -- \"$1\" 19M; fi; "
      "exec \"$1\" bench --transport mpi --zero 1 --time 1ms --messages \"$2\"";
  const Answer answer = answer_of(
      {"mpirun.openmpi", "--oversubscribe", "-n", "2", "bash", "-c", script, "bench", commlens_binary()});
  EXPECT_EQ(answer.code, 2);
  EXPECT_NE(answer.err.find("none.yml"), std::string::npos) << answer.err;
}

TEST(BenchVerb, RefusesThreadsOfEachProcessOfALauncher) {
  const Answer answer =
      commlens_with({"bench", "all_reduce", "--sizes", "8"}, {{"OMPI_COMM_WORLD_SIZE", "4"}});
  EXPECT_EQ(answer.code, 2);
  EXPECT_NE(answer.err.find("the launcher has started 4 processes"), std::string::npos) << answer.err;
}

TEST(BenchVerb, TakesNoOpBesideMessages) {
  const Answer answer = commlens_with({"bench", "--messages", "19M", "all_reduce"});
  EXPECT_EQ(answer.code, 2);
  EXPECT_NE(answer.err.find("OP and --messages both say what is timed"), std::string::npos) << answer.err;
}

TEST(BenchVerb, RefusesLayoutsWithoutMessages) {
  const Answer answer = commlens_with({"bench", "all_reduce", "--tp", "2"});
  EXPECT_EQ(answer.code, 2);
  EXPECT_EQ(answer.err, "commlens: --tp is of a configuration; give one with --messages\n");
}

/// Kind, type, message bytes and ranks.
using Recorded = std::set<std::tuple<std::string, std::string, std::int64_t, std::int64_t>>;

/// What `bench --messages` makes on two processes, as a recording of MPI has it.
Recorded made_by_bench(const Words& flags, const std::string& result) {
  const ScratchDirectory directory;
  const std::string trace = directory.path("trace");
  Words command = {commlens_binary(), "record", "-o", trace, "--"};
  Words bench = on_two({"--time", "1ms", "--json", result, "--messages"});
  bench.insert(bench.end(), flags.begin(), flags.end());
  command.insert(command.end(), bench.begin(), bench.end());
  const Answer recorded = answer_of(command);
  EXPECT_EQ(recorded.code, 0) << recorded.err;
  const Result<Trace> calls = formats::import_any(trace);
  EXPECT_TRUE(calls) << calls.error().message;
  Recorded made;
  for (const CommOp& op : calls ? calls->ops() : std::vector<CommOp>()) {
    // Whole numbers are what the ranks tell each other: that all are ready, and times between the rounds.
    if (op.dtype != DType::int64 && op.dtype != DType::int32 && op.kind != CommKind::barrier) {
      const CommKind kind = op.kind == CommKind::recv ? CommKind::send : op.kind;  // the row is of both
      made.insert({std::string(name_of(kind)), std::string(name_of(op.dtype)), message_bytes(op).value,
                   calls->groups.size(op.group)});
    }
  }
  return made;
}

TEST(BenchVerb, MakesTheCallsOfTheMessagesAsACaptureSees) {
  if (!has_open_mpi() || !has_capture()) {
    GTEST_SKIP() << "no Open MPI here, or nothing to record it with";
  }
  const Words model = {"19M",     "--ranks", "2",       "--layers", "2",       "--hidden", "64",
                       "--heads", "4",       "--vocab", "256",      "--dtype", "fp32"};
  for (const Words& layout : {Words{"--framework", "deepspeed", "--zero", "3"},
                              Words{"--framework", "megatron", "--tp", "2", "--sp"},
                              Words{"--framework", "commlens", "--pp", "2", "--micro-batches", "2"}}) {
    SCOPED_TRACE(layout[1]);
    const ScratchDirectory directory;
    const std::string result = directory.path("result.json");
    Words flags = model;
    flags.insert(flags.end(), layout.begin(), layout.end());
    const Recorded made = made_by_bench(flags, result);
    Recorded wanted;
    const Json measured = json_in(result);
    for (const Json& row : measured.at("rows")) {
      std::string dtype = row.at("dtype").get<std::string>();
      if (dtype == "int64" || dtype == "int32") {
        continue;  // as above
      }
      dtype = dtype == "bool" ? "uint8" : dtype;  // as MPI carries it
      std::string op = row.at("op").get<std::string>();
      op.resize(op.ends_with("_v") ? op.size() - 2 : op.size());  // of unequal parts
      wanted.emplace(op, dtype, row.at("message_bytes").get<std::int64_t>(),
                     row.at("group_size").get<std::int64_t>());
    }
    EXPECT_GE(wanted.size(), 2U);
    EXPECT_EQ(made, wanted);
  }
}

}  // namespace
}  // namespace commlens
