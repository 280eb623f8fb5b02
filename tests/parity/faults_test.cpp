// The behaviour of a job on failures.
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <functional>

#include <gtest/gtest.h>
#include <sys/resource.h>

#include "commlens/base/result.hpp"
#include "commlens/base/test_support.hpp"
#include "commlens/trace/trace_file.hpp"
#include "parity/training_run.hpp"

namespace commlens::engine {
namespace {

Job zero3_job() {
  Job job = tiny_job();
  job.layout.dp = 4;
  job.train.zero_stage = 3;
  job.train.micro_batch = 2;
  return job;
}

std::string failure_of(const std::string& name, const Job& job, const TrainOptions& options) {
  try {
    train_on_threads(name, job, options);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

TEST(FailedRank, EndsTheJobAndIsNamed) {
  const test_support::ScopedVariable variable("COMMLENS_FAULT", "rank=2,iteration=3");
  const std::string message = failure_of("failed", zero3_job(), {.iterations = 6});
  EXPECT_NE(message.find("rank 2"), std::string::npos) << message;
  EXPECT_NE(message.find("failure on purpose"), std::string::npos) << message;
}

TEST(FailedRank, LeavesATraceOfTheIterationsBefore) {
  const test_support::ScopedVariable variable("COMMLENS_FAULT", "rank=1,iteration=3");
  EXPECT_NE(failure_of("failed-trace", zero3_job(), {.iterations = 6}), "");
  EXPECT_EQ(differences_from_prediction(zero3_job(), scratch_directory("failed-trace"), 3),
            std::vector<std::string>{});
  const Result<Trace> trace = read_trace(scratch_directory("failed-trace"));
  ASSERT_TRUE(trace.has_value()) << trace.error().message;
  EXPECT_EQ(trace->ranks(), 4);
}

TEST(Loss, ThatIsNotANumberEndsTheJobOnAllRanks) {
  const test_support::ScopedVariable variable("COMMLENS_FAULT", "rank=3,iteration=2,kind=nan");
  const std::string message = failure_of("nan", zero3_job(), {.iterations = 6});
  EXPECT_NE(message.find("nan"), std::string::npos) << message;
  EXPECT_NE(message.find("iteration 2"), std::string::npos) << message;
}

TEST(StopRequest, OfOneRankEndsTheIterationOfAll) {
  std::atomic<bool> asked = false;
  TrainOptions options{.iterations = 1000};
  options.stop_requested = [&] { return !asked.exchange(true); };  // one rank in the first iteration
  options.save = scratch_directory("stopped-checkpoint");
  const TrainingRun run = train_on_threads("stopped", zero3_job(), options);
  EXPECT_EQ(run.losses.size(), 1U);
  EXPECT_EQ(differences_from_prediction(zero3_job(), run.trace, 1), std::vector<std::string>{});
  EXPECT_TRUE(std::filesystem::exists(*options.save / "iteration-1" / "rank-3.bin"));
}

TEST(Checkpoint, OfAnotherModelIsRefused) {
  TrainOptions options{.iterations = 1};
  options.save = scratch_directory("small-checkpoint");
  train_on_threads("small", zero3_job(), options);
  Job wider = zero3_job();
  wider.model.hidden = 64;
  wider.model.head_dim = 16;
  wider.model.ffn_hidden = 256;
  TrainOptions resumed{.iterations = 2};
  resumed.resume = options.save;
  try {
    train_on_threads("wider", wider, resumed);
    FAIL() << "a checkpoint of another width was taken";
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find("'hidden' is 32 there and 64 here"), std::string::npos)
        << error.what();
  }
}

TEST(Checkpoint, ThatIsDamagedIsRefused) {
  TrainOptions options{.iterations = 1};
  options.save = scratch_directory("damaged-checkpoint");
  train_on_threads("whole", zero3_job(), options);
  std::filesystem::resize_file(*options.save / "iteration-1" / "rank-2.bin", 100);
  TrainOptions resumed{.iterations = 2};
  resumed.resume = options.save;
  const std::string message = failure_of("resumed", zero3_job(), resumed);
  EXPECT_NE(message.find("rank-2"), std::string::npos) << message;
  EXPECT_NE(message.find("damaged"), std::string::npos) << message;
}

TEST(Checkpoint, WithMoreBytesThanItsSegmentsIsRefused) {
  TrainOptions options{.iterations = 1};
  options.save = scratch_directory("longer-checkpoint");
  train_on_threads("longer", zero3_job(), options);
  std::ofstream(*options.save / "iteration-1" / "rank-1.bin", std::ios::app) << "more";
  TrainOptions resumed{.iterations = 2};
  resumed.resume = options.save;
  const std::string message = failure_of("resumed-longer", zero3_job(), resumed);
  EXPECT_NE(message.find("rank-1.bin: damaged"), std::string::npos) << message;
}

/// The error for a checkpoint whose file `name` was changed by `damage`.
std::string refusal_after(const std::string& name,
                          const std::function<void(const std::filesystem::path&)>& damage) {
  TrainOptions options{.iterations = 1};
  options.save = scratch_directory("spoilt-checkpoint");
  train_on_threads("spoilt", zero3_job(), options);
  damage(*options.save / "iteration-1" / name);
  TrainOptions resumed{.iterations = 2};
  resumed.resume = options.save;
  return failure_of("resumed-spoilt", zero3_job(), resumed);
}

/// Writes `bytes` over the file from `at` on.
void overwrite(const std::filesystem::path& path, std::int64_t at, const std::string& bytes) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(at).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

TEST(Checkpoint, WithOneFlippedBitIsRefused) {
  const std::string message = refusal_after("rank-3.bin", [](const std::filesystem::path& path) {
    std::ifstream in(path, std::ios::binary);
    in.seekg(1000);
    const char flipped = static_cast<char>(in.get() ^ 1);
    in.close();
    overwrite(path, 1000, {flipped});
  });
  EXPECT_NE(message.find("rank-3.bin: damaged, its checksum"), std::string::npos) << message;
}

TEST(Checkpoint, WithAPageOfZerosIsRefused) {
  const std::string message = refusal_after("rank-1.bin", [](const std::filesystem::path& path) {
    overwrite(path, 4096, std::string(4096, '\0'));
  });
  EXPECT_NE(message.find("rank-1.bin: damaged, its checksum"), std::string::npos) << message;
}

TEST(Checkpoint, WithAFileOfAnotherIterationIsRefused) {
  TrainOptions options{.iterations = 2};
  options.save = scratch_directory("two-checkpoints");
  options.save_every = 1;
  train_on_threads("two", zero3_job(), options);
  for (const char* const name : {"rank-2.bin", "rank-2.json"}) {
    std::filesystem::copy_file(*options.save / "iteration-1" / name, *options.save / "iteration-2" / name,
                               std::filesystem::copy_options::overwrite_existing);
  }
  TrainOptions resumed{.iterations = 3};
  resumed.resume = options.save;
  const std::string message = failure_of("resumed-mixed", zero3_job(), resumed);
  EXPECT_NE(message.find("rank-2.json: damaged or of another checkpoint"), std::string::npos) << message;
}

TEST(Checkpoint, OfAnotherSeedIsRefused) {
  TrainOptions options{.iterations = 1, .seed = 7};
  options.save = scratch_directory("seed-checkpoint");
  train_on_threads("seed", zero3_job(), options);
  TrainOptions resumed{.iterations = 2};
  resumed.resume = options.save;
  const std::string message = failure_of("resumed-seed", zero3_job(), resumed);
  EXPECT_NE(message.find("with --seed 7, not 1234"), std::string::npos) << message;
}

TEST(Checkpoint, ThatFailsRemovesItsFiles) {
  TrainOptions options{.iterations = 1};
  options.save = scratch_directory("failing-checkpoint");
  std::filesystem::create_directories(*options.save / ".iteration-0.tmp");  // of a job that was killed
  struct rlimit before = {};
  getrlimit(RLIMIT_FSIZE, &before);
  const auto ignored = std::signal(SIGXFSZ, SIG_IGN);
  options.stop_requested = [&] {  // after the trace's files have their size, before the checkpoint's
    const struct rlimit small = {4096, before.rlim_max};
    setrlimit(RLIMIT_FSIZE, &small);
    return false;
  };
  const std::string message = failure_of("failing", zero3_job(), options);
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, ignored);
  EXPECT_NE(message.find("cannot write"), std::string::npos) << message;
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(*options.save)) {
    names.push_back(entry.path().filename().string());
  }
  EXPECT_EQ(names, std::vector<std::string>{".lock"});
}

/// The error for a checkpoint whose description has `from` replaced by `to`.
std::string refusal(const std::string& from, const std::string& to) {
  TrainOptions options{.iterations = 1};
  options.save = scratch_directory("edited-checkpoint");
  train_on_threads("edited", zero3_job(), options);
  const std::filesystem::path manifest = *options.save / "iteration-1" / "checkpoint.json";
  std::ifstream in(manifest);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  text.replace(text.find(from), from.size(), to);
  std::ofstream(manifest) << text;
  TrainOptions resumed{.iterations = 2};
  resumed.resume = options.save;
  return failure_of("resumed", zero3_job(), resumed);
}

TEST(Checkpoint, WithAnImpossibleDescriptionIsRefused) {
  const std::pair<const char*, const char*> edits[] = {
      {"\"iteration\": 1", "\"iteration\": 18446744073709551615"},
      {"\"iteration\": 1", "\"iteration\": -1"},
      {"\"iteration\": 1", "\"iteration\": \"1\""},
      {"\"dp\": 4", "\"dp\": 9223372036854775807"},
      {"\"dp_of_job\": 4", "\"dp_of_job\": 9223372036854775807"},
      {"\"commlens.checkpoint/2\"", "1"},
  };
  for (const auto& [from, to] : edits) {
    EXPECT_NE(refusal(from, to).find("no checkpoint of this version"), std::string::npos)
        << from << " -> " << to;
  }
}

TEST(Checkpoint, ThatCannotBeWrittenIsRefusedBeforeTheTraining) {
  const std::filesystem::path file = scratch_directory("a-file");
  std::ofstream(file) << "text";
  TrainOptions options{.iterations = 1};
  options.save = file / "checkpoint";
  const std::string message = failure_of("unwritable", zero3_job(), options);
  EXPECT_NE(message.find("--save"), std::string::npos) << message;
  EXPECT_FALSE(std::filesystem::exists(scratch_directory("unwritable") / "rank-0.bin"));
}

}  // namespace
}  // namespace commlens::engine
