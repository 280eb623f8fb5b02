// Errors of `commlens train` before it trains.
#include <algorithm>

#include <gtest/gtest.h>

#include "tests/cli/program.hpp"

namespace commlens {
namespace {

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) {
    text += word + " ";
  }
  return text;
}

/// Refused with exit code 2 and one line that contains `says`.
void expect_refused(const std::vector<std::string>& arguments, const std::string& says) {
  std::vector<std::string> command = {"train", "19M"};
  command.insert(command.end(), arguments.begin(), arguments.end());
  if (std::find(arguments.begin(), arguments.end(), "--dtype") == arguments.end()) {
    command.insert(command.end(), {"--dtype", "bf16"});  // the preset's fp16 gives a warning
  }
  const Answer answer = commlens_with(command);
  EXPECT_EQ(answer.code, 2) << joined(arguments) << answer.err;
  EXPECT_EQ(answer.out, "") << joined(arguments);
  EXPECT_EQ(answer.err.rfind("commlens: ", 0), 0u) << joined(arguments) << answer.err;
  EXPECT_EQ(std::count(answer.err.begin(), answer.err.end(), '\n'), 1) << joined(arguments) << answer.err;
  EXPECT_NE(answer.err.find(says), std::string::npos) << joined(arguments) << answer.err;
}

TEST(Train, RefusesFlagsThatMakeNoSense) {
  expect_refused({"--iterations", "0"}, "--iterations");
  expect_refused({"--iterations", "-3"}, "--iterations");
  expect_refused({"--iterations", "many"}, "--iterations");
  expect_refused({"--lr", "fast"}, "--lr");
  expect_refused({"--lr", "-1"}, "--lr");
  expect_refused({"--lr", "1e-4", "--min-lr", "1e-3"}, "--min-lr 0.001: it is above --lr 0.0001");
  expect_refused({"--seed", "-1"}, "--seed");
  expect_refused({"--rotary-fraction", "2"}, "--rotary-fraction");
  expect_refused({"--threads", "0"}, "--threads");
  expect_refused({"--transport", "pigeon"}, "--transport");
  expect_refused({"--device", "tpu"}, "--device");
  expect_refused({"--format", "xml"}, "--format");
  expect_refused({"--save-every", "5"}, "--save-every: say where to with --save");
  expect_refused({"--gpus-per-node", "8"}, "--gpus-per-node");
}

TEST(Train, RefusesThreadsInEachProcessOfALauncher) {
  setenv("OMPI_COMM_WORLD_SIZE", "4", 1);
  expect_refused({"--ranks", "4"}, "mpirun has started 4 processes");
  unsetenv("OMPI_COMM_WORLD_SIZE");
}

// Every process of a launcher reads the same arguments; one of them reports the error.
TEST(Train, OneProcessOfALauncherSaysWhatIsWrong) {
  const std::vector<std::string> command = {"train", "19M", "--transport", "mpi", "--tp", "x"};
  const auto answer = [&](const char* rank) {
    return commlens_with(command, {{"OMPI_COMM_WORLD_SIZE", "2"}, {"OMPI_COMM_WORLD_RANK", rank}});
  };
  EXPECT_EQ(answer("0").err, "commlens: --tp: 'x' is not an integer\n");
  EXPECT_EQ(answer("1").err, "");
  EXPECT_EQ(answer("1").code, 2);
  EXPECT_EQ(commlens_with(command, {{"RANK", "1"}}).err, answer("0").err) << "no launcher has started it";
}

TEST(Train, RefusesOtherFrameworksByName) {
  expect_refused({"--framework", "neox"}, "--framework neox");
  expect_refused({"--framework", "deepspeed"}, "--framework deepspeed");
}

TEST(Train, RefusesWhatTheTrainerDoesNotKnow) {
  expect_refused({"--ranks", "2", "--cp", "2"}, "--cp");
  expect_refused({"--ranks", "2", "--ep", "2"}, "ep 2");
  expect_refused({"--zero", "1,2"}, "--zero: only predict sweeps");
  expect_refused({"--pp", "7"}, "7 pipeline parts");
}

TEST(Train, RefusesWhatMemoryCannotHold) {  // 200 layers of 12 h^2: 10^15 parameters
  expect_refused({"--layers", "200", "--hidden", "655360", "--heads", "64"}, "shrink the model");
}

TEST(Train, RefusesTransportsThatDoNotFit) {
  expect_refused({"--mpi", "openmpi"}, "--mpi: the ranks are threads");
  expect_refused({"--transport", "mpi", "--device", "cuda"}, "use --transport nccl");
  expect_refused({"--transport", "nccl", "--device", "cpu"}, "use --transport threads or mpi");
  expect_refused({"--ranks", "2", "--device", "cuda"}, "use --transport nccl");
  expect_refused({"--ranks", "2048"}, "--transport mpi");
}

TEST(Train, SaysWhereItLookedForItsTrainer) {
  const ScratchDirectory directory;
  std::filesystem::copy_file(commlens_binary(), directory.path("commlens"));
  const Answer answer =
      RunningProgram({directory.path("commlens"), "train", "19M", "--dtype", "bf16"}, {}).wait();
  EXPECT_EQ(answer.code, 2);
  EXPECT_NE(answer.err.find("the trainer is missing"), std::string::npos) << answer.err;
  EXPECT_NE(answer.err.find(std::filesystem::path(directory.path("x")).parent_path()), std::string::npos)
      << answer.err;
}

TEST(Train, RefusesDataItCannotUse) {
  if (!has_trainer()) {
    GTEST_SKIP() << "this build has no trainer";
  }
  const ScratchDirectory directory;
  expect_refused({"--data", directory.path("missing.txt")}, "missing.txt: no such file");
  expect_refused({"--data", directory.path("")}, "not a regular file");
  expect_refused({"--data", directory.write("empty.txt", "")}, "empty.txt: the file is empty");
  expect_refused({"--seq", "64", "--data", directory.write("short.txt", std::string(64, 'x'))},
                 "short.txt: 64 tokens are less than one sequence of 64");
  expect_refused({"--data", directory.write("text.txt", std::string(4096, 'x')), "--vocab", "255"},
                 "--vocab 256");
  expect_refused({"--data", directory.path("text.txt"), "--vocab-file", directory.path("vocab.json")},
                 "--vocab-file needs --merge-file");
  expect_refused({"--vocab-file", "v", "--merge-file", "m"}, "--data FILE");
  expect_refused({"--data", directory.path("text.txt"), "--vocab-file",
                  directory.write("vocab.json", "{\"a\": 0,\n\"b\"}"), "--merge-file",
                  directory.write("merges.txt", "a b")},
                 "vocab.json:2: ");
}

TEST(Train, RefusesToResumeFromNothing) {
  if (!has_trainer()) {
    GTEST_SKIP() << "this build has no trainer";
  }
  const ScratchDirectory directory;
  expect_refused({"--resume", directory.path("nowhere")}, "nowhere");
}

}  // namespace
}  // namespace commlens
