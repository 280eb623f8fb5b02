// What a job does when something breaks.
#include <atomic>
#include <cstdlib>
#include <fstream>

#include <gtest/gtest.h>

#include "commlens/base/result.hpp"
#include "commlens/trace/trace_file.hpp"
#include "parity/training_run.hpp"

namespace commlens::engine {
namespace {

class FaultVariable {
 public:
  explicit FaultVariable(const char* text) { setenv("COMMLENS_FAULT", text, 1); }
  ~FaultVariable() { unsetenv("COMMLENS_FAULT"); }
  FaultVariable(const FaultVariable&) = delete;
  FaultVariable& operator=(const FaultVariable&) = delete;
};

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
  const FaultVariable variable("rank=2,iteration=3");
  const std::string message = failure_of("failed", zero3_job(), {.iterations = 6});
  EXPECT_NE(message.find("rank 2"), std::string::npos) << message;
  EXPECT_NE(message.find("failure on purpose"), std::string::npos) << message;
}

TEST(FailedRank, LeavesATraceOfTheIterationsBefore) {
  const FaultVariable variable("rank=1,iteration=3");
  EXPECT_NE(failure_of("failed-trace", zero3_job(), {.iterations = 6}), "");
  EXPECT_EQ(differences_from_prediction(zero3_job(), scratch_folder("failed-trace"), 3),
            std::vector<std::string>{});
  const Result<Trace> trace = read_trace(scratch_folder("failed-trace"));
  ASSERT_TRUE(trace.has_value()) << trace.error().message;
  EXPECT_EQ(trace->ranks(), 4);
}

TEST(Loss, ThatIsNotANumberEndsTheJobOnAllRanks) {
  const FaultVariable variable("rank=3,iteration=2,kind=nan");
  const std::string message = failure_of("nan", zero3_job(), {.iterations = 6});
  EXPECT_NE(message.find("nan"), std::string::npos) << message;
  EXPECT_NE(message.find("iteration 2"), std::string::npos) << message;
}

TEST(StopRequest, OfOneRankEndsTheIterationOfAll) {
  std::atomic<bool> asked = false;
  TrainOptions options{.iterations = 1000};
  options.stop_requested = [&] { return !asked.exchange(true); };  // one rank in the first iteration
  options.save = scratch_folder("stopped-checkpoint");
  const TrainingRun run = train_on_threads("stopped", zero3_job(), options);
  EXPECT_EQ(run.losses.size(), 1U);
  EXPECT_EQ(differences_from_prediction(zero3_job(), run.trace, 1), std::vector<std::string>{});
  EXPECT_TRUE(std::filesystem::exists(*options.save / "iteration-1" / "rank-3.bin"));
}

TEST(Checkpoint, OfAnotherModelIsRefused) {
  TrainOptions options{.iterations = 1};
  options.save = scratch_folder("small-checkpoint");
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
  options.save = scratch_folder("damaged-checkpoint");
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
  options.save = scratch_folder("longer-checkpoint");
  train_on_threads("longer", zero3_job(), options);
  std::ofstream(*options.save / "iteration-1" / "rank-1.bin", std::ios::app) << "more";
  TrainOptions resumed{.iterations = 2};
  resumed.resume = options.save;
  const std::string message = failure_of("resumed-longer", zero3_job(), resumed);
  EXPECT_NE(message.find("rank-1.bin: damaged"), std::string::npos) << message;
}

/// Why a checkpoint whose description has `from` replaced by `to` is refused.
std::string refusal(const std::string& from, const std::string& to) {
  TrainOptions options{.iterations = 1};
  options.save = scratch_folder("edited-checkpoint");
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
      {"\"commlens.checkpoint/1\"", "1"},
  };
  for (const auto& [from, to] : edits) {
    EXPECT_NE(refusal(from, to).find("no checkpoint of this version"), std::string::npos)
        << from << " -> " << to;
  }
}

TEST(Checkpoint, ThatCannotBeWrittenIsRefusedBeforeTheTraining) {
  const std::filesystem::path file = scratch_folder("a-file");
  std::ofstream(file) << "text";
  TrainOptions options{.iterations = 1};
  options.save = file / "checkpoint";
  const std::string message = failure_of("unwritable", zero3_job(), options);
  EXPECT_NE(message.find("--save"), std::string::npos) << message;
  EXPECT_FALSE(std::filesystem::exists(scratch_folder("unwritable") / "rank-0.bin"));
}

}  // namespace
}  // namespace commlens::engine
