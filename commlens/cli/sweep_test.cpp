// Sweeps of `predict` over layouts and frameworks, with the work per row held fixed or not.
#include "commlens/app/sweep.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "commlens/cli/test_support.hpp"

namespace commlens {
namespace {

using test_support::Outcome;
using test_support::run_with;
using Json = nlohmann::json;

Outcome sweep(std::vector<std::string> flags, const std::string& format = "json") {
  flags.insert(flags.begin(), {"predict", "1.3B", "--ranks", "8", "--format", format});
  return run_with(flags);
}

std::vector<std::int64_t> sequences_in(const Outcome& outcome) {
  std::vector<std::int64_t> sequences;
  const Json result = Json::parse(outcome.out);
  for (const Json& row : result["rows"]) {
    sequences.push_back(row["sequences_per_iteration"]);
  }
  return sequences;
}

TEST(Sweep, SaysInOneLineThatItsRowsDoDifferentWork) {
  const Outcome outcome = sweep({"--tp", "1,2,4,8"});
  EXPECT_EQ(sequences_in(outcome), std::vector<std::int64_t>({32, 16, 8, 4}))
      << "8 / tp ranks of 4 sequences";
  EXPECT_EQ(
      outcome.err,
      "commlens: warning: the rows do different work, 4 to 32 sequences per iteration; --global-batch N "
      "holds it fixed\n");
  EXPECT_EQ(sweep({"--seq", "512,1024"}).err, "");
  EXPECT_EQ(sweep({"--tp", "1,2", "--iteration", "init"}).err, "") << "nothing is trained there";
}

TEST(Sweep, AGlobalBatchHoldsTheWork) {
  const Outcome outcome = sweep({"--tp", "1,2,4,8", "--global-batch", "64"});
  EXPECT_EQ(sequences_in(outcome), std::vector<std::int64_t>({64, 64, 64, 64}));
  EXPECT_EQ(outcome.err, "");
}

// Of the paper's equations with one sequence per micro-batch, 1.3B (L 24, s and h 2048, P 1,418,596,352):
// ZeRO-3 sends 3 P (d-1)/d elements of 2 bytes per rank and step, whatever the batch; TP 6 L + 1 all_reduces
// of s h elements per micro-batch, 2 (t-1)/t of each. Per step, with the flags as given, TP 8 sends less, but
// for one sequence instead of eight; for the same eight sequences it sends twice as much.
TEST(Sweep, ComparesZero3WithTensorParallelismTheRightWayRound) {
  const auto aggregate = [](const std::vector<std::string>& flags) {
    std::vector<std::string> all = {"--framework", "paper", "--micro-batch", "1"};
    all.insert(all.end(), flags.begin(), flags.end());
    const Json result = Json::parse(sweep(all).out);
    return result["totals"]["aggregate"]["wire_bytes"].get<std::int64_t>();
  };
  EXPECT_EQ(aggregate({"--zero", "3"}), 59'581'046'784) << "3 x 1418596352 x 7 x 2";
  EXPECT_EQ(aggregate({"--tp", "8", "--zero", "0"}), 17'028'874'240) << "145 x 2 x 7 x 2048 x 2048 x 2";
  EXPECT_EQ(aggregate({"--zero", "3", "--global-batch", "8"}), 59'581'046'784);
  EXPECT_EQ(aggregate({"--tp", "8", "--zero", "0", "--global-batch", "8"}), 136'230'993'920) << "8 times";
}

TEST(Sweep, CountsWireBytesPerSequenceOfAllRanks) {
  const Json rows =
      Json::parse(sweep({"--framework", "paper", "--tp", "4,8", "--global-batch", "64"}).out)["rows"];
  for (const Json& row : rows) {
    EXPECT_EQ(row["aggregate"]["wire_bytes_per_sequence"].get<std::int64_t>() * 64,
              row["aggregate"]["wire_bytes"].get<std::int64_t>());
  }
  // 145 all_reduces of one sequence's activation, 2 (t-1) m.
  EXPECT_EQ(rows[1]["aggregate"]["wire_bytes_per_sequence"], 145LL * 2 * 7 * 2048 * 2048 * 2);
}

TEST(Sweep, AddsItsColumnsAtTheEndOfTheCsv) {
  const std::string text = sweep({"--framework", "paper", "--tp", "4,8", "--global-batch", "64"}, "csv").out;
  const std::string head = text.substr(0, text.find('\n'));
  EXPECT_TRUE(
      head.ends_with(",verified,reason,sequences_per_iteration,wire_bytes_per_sequence_all_ranks,"
                     "message_bytes_per_rank,unverified,memory_bytes_per_rank"))
      << head;
  // 145 x 2 x 7 x 2048 x 2048 x 2
  EXPECT_NE(text.rfind(",true,,64,17028874240,"), std::string::npos) << text;
}

TEST(Sweep, GoesOverFrameworks) {
  const Outcome outcome = sweep({"--framework", "megatron,paper", "--tp", "4,8", "--global-batch", "64"});
  const Json result = Json::parse(outcome.out);
  std::vector<std::string> frameworks;
  for (const Json& row : result["rows"]) {
    frameworks.push_back(row["framework"]);
    EXPECT_EQ(row["flags"]["framework"], row["framework"]);
  }
  EXPECT_EQ(frameworks, std::vector<std::string>({"megatron", "megatron", "paper", "paper"}));
  EXPECT_TRUE(result["framework"].is_null());
  EXPECT_EQ(Json::parse(sweep({"--framework", "paper", "--tp", "4,8"}).out)["framework"], "paper");
  const std::string csv = sweep({"--framework", "megatron,paper", "--tp", "8"}, "csv").out;
  EXPECT_EQ(csv.find("framework"), csv.find("framework,framework_version")) << "one column of that name\n"
                                                                            << csv;
}

TEST(Sweep, NamesTheFrameworkOfWhatCannotBe) {
  const Outcome outcome = sweep({"--framework", "deepspeed,megatron", "--tp", "8", "--global-batch", "64"});
  const Json rows = Json::parse(outcome.out)["rows"];
  EXPECT_NE(rows[0]["reason"].get<std::string>().find("framework deepspeed splits linears by AutoTP alone"),
            std::string::npos);
  EXPECT_EQ(rows[1]["sequences_per_iteration"], 64);
}

TEST(Sweep, AGlobalBatchThatDoesNotDivideIsOneError) {
  const Outcome outcome = run_with({"predict", "1.3B", "--ranks", "8", "--global-batch", "60"});
  EXPECT_EQ(outcome.code, ExitCode::bad_input);
  EXPECT_EQ(outcome.err,
            "commlens: the global batch 60 is not divisible by micro-batch 4 x dp 8; change one of them\n");
}

TEST(Sweep, ListsOfFrameworksBelongToPredict) {
  EXPECT_EQ(run_with({"advise", "1.3B", "--framework", "neox,megatron"}).err,
            "commlens: --framework neox,megatron: only predict sweeps over lists; give one name\n");
  EXPECT_EQ(run_with({"predict", "1.3B", "--framework", "neox,"}).err,
            "commlens: --framework neox,: a name is missing\n");
}

}  // namespace
}  // namespace commlens
