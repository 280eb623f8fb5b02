// Trainings whose recording keeps the last calls of each rank. A rank makes two calls an iteration, an
// all_reduce of 41,856 gradients in fp32 and one of the loss, 8 bytes.
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/cli/program.hpp"

namespace commlens {
namespace {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

constexpr std::uint64_t k_ring_headers = 274'560;  // bytes
constexpr std::uint64_t k_record = 32;

class TrainingInARing : public TrainerTest {
 protected:
  /// Two ranks, 100 iterations, so 200 calls of each.
  Answer train(const Words& more) const {
    Words words = {"train",  "19M", "--layers",      "2",   "--hidden",     "32",   "--heads", "4",
                   "--seq",  "16",  "--vocab",       "256", "--dtype",      "fp32", "--ranks", "2",
                   "--zero", "0",   "--micro-batch", "1",   "--iterations", "100",  "-o",      trace()};
    words.insert(words.end(), more.begin(), more.end());
    return commlens_with(words);
  }
  std::string trace() const { return directory_.path("trace"); }
  std::uint64_t bytes_of(const std::string& file) const {
    return std::filesystem::file_size(directory_.path("trace/" + file));
  }
};

// Of 51 calls a rank the first is one of an iteration that is not whole.
TEST_F(TrainingInARing, HasItsLastCallsAndComparesTheirIterations) {
  const Answer answer = train({"--ring", "51"});
  EXPECT_EQ(answer.code, 0) << answer.err;
  EXPECT_EQ(answer.last_line(), "prediction: 100 of 100 calls equal, of the last 25 iterations");
  EXPECT_NE(answer.out.find(", of each rank the last 51 calls; 298 overwritten\n"), std::string::npos)
      << answer.out;
  EXPECT_EQ(bytes_of("rank-0.bin"), k_ring_headers + 51 * k_record);
  EXPECT_FALSE(std::filesystem::exists(directory_.path("trace/rank-0.compute.bin")));
}

TEST_F(TrainingInARing, IsSummedUpAndWatchedAsOthersAre) {
  ASSERT_EQ(train({"--ring", "51", "--format", "csv"}).code, 0);
  const Answer summary = commlens_with({"summary", trace(), "--format", "json"});
  ASSERT_EQ(summary.code, 0) << summary.err;
  const Json sums = Json::parse(summary.out);
  EXPECT_EQ(sums["calls_all_ranks"], 102);
  EXPECT_EQ(sums["iterations"].size(), 25U);
  EXPECT_EQ(sums["iterations"].front(), 75);
  EXPECT_EQ(sums["coverage"]["skipped_records_whole_trace"], (Json{{"call overwritten, ring full", 298}}));
  const Answer watched = commlens_with({"watch", trace(), "--once", "--json"});
  EXPECT_EQ(watched.code, 0) << watched.err;
  const Json state = Json::parse(watched.out);
  EXPECT_EQ(state["job"], "ended");
  EXPECT_EQ(state["iteration"], 99);
  EXPECT_EQ(state["calls_all_ranks"], 102);
  EXPECT_EQ(state["lost"], (Json{{{"reason", "call overwritten, ring full"}, {"calls_all_ranks", 298}}}));
}

TEST_F(TrainingInARing, ThatHoldsAllIsComparedAsAWhole) {
  const Answer answer = train({"--ring"});
  EXPECT_EQ(answer.code, 0) << answer.err;
  EXPECT_EQ(answer.last_line(), "prediction: 400 of 400 calls equal");
  EXPECT_EQ(answer.out.find("overwritten"), std::string::npos) << answer.out;
}

TEST_F(TrainingInARing, ThatHoldsNoIterationIsNotCompared) {
  const Answer answer = train({"--ring=1", "--format", "json"});
  ASSERT_EQ(answer.code, 0) << answer.err;
  const Json json = Json::parse(answer.out);
  EXPECT_EQ(json["prediction"], nullptr);
  EXPECT_EQ(json["skipped_records_whole_trace"], (Json{{"call overwritten, ring full", 398}}));
  EXPECT_EQ(json["totals"]["iteration_count"], 100);
  EXPECT_EQ(train({"--ring", "1"}).last_line(),
            "prediction: not compared, the trace has no whole iteration (--ring)");
}

TEST_F(TrainingInARing, OfAnImpossibleSizeIsRefused) {
  for (const char* const size : {"0", "-5", "many", "1073741825"}) {
    const Answer answer = train({"--ring", size});
    EXPECT_EQ(answer.code, 2) << size;
    EXPECT_NE(answer.err.find("--ring"), std::string::npos) << answer.err;
    EXPECT_FALSE(std::filesystem::exists(trace())) << size;
  }
}

}  // namespace
}  // namespace commlens
