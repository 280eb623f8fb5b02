// --rank-order: which ranks are in a group.
#include <set>
#include <sstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "commlens/cli/test_support.hpp"

namespace commlens {
namespace {

using test_support::Outcome;
using test_support::run_with;
using Group = std::vector<int>;

/// The groups of rank 0's calls in the steady iteration, dp 2, tp 2, pp 2.
std::set<Group> groups_of_rank_0(std::vector<std::string> more) {
  std::vector<std::string> arguments = {
      "predict", "19M",    "--framework", "megatron@0.7.0", "--ranks", "8",       "--tp", "2", "--pp",
      "2",       "--zero", "0",           "--dtype",        "fp32",    "--calls", "-"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  std::istringstream lines(run_with(arguments).out);
  std::set<Group> groups;
  for (std::string line; std::getline(lines, line);) {
    const nlohmann::json call = nlohmann::json::parse(line);
    if (call["rank"] == 0 && call["iteration"] == 1 && call["op"] == "all_reduce") {
      groups.insert(call["group"].get<Group>());
    }
  }
  return groups;
}

TEST(RankOrder, NumbersTheGroups) {
  // tp is the fastest in both: rank = tp + 2 dp + 4 pp by default, tp + 2 pp + 4 dp with pp before dp. Rank 0
  // reduces activations over tp, gradients over dp, and their norm over tp and pp together.
  EXPECT_EQ(groups_of_rank_0({}), (std::set<Group>{{0, 1}, {0, 2}, {0, 1, 4, 5}}));
  EXPECT_EQ(groups_of_rank_0({"--rank-order", "tp-cp-ep-pp-dp"}),
            (std::set<Group>{{0, 1}, {0, 4}, {0, 1, 2, 3}}));
}

TEST(RankOrder, IsRefusedByRulesThatHaveOne) {
  for (const char* framework : {"paper", "deepspeed", "neox", "torch-ddp", "commlens"}) {
    const Outcome outcome = run_with({"predict", "19M", "--framework", framework, "--ranks", "2", "--zero",
                                      "0", "--rank-order", "tp-cp-ep-pp-dp"});
    EXPECT_EQ(outcome.code, ExitCode::bad_input) << framework;
    EXPECT_TRUE(outcome.err.ends_with("commlens: the " + std::string(framework) +
                                      " rules number ranks in the order tp-cp-ep-dp-pp alone, not "
                                      "tp-cp-ep-pp-dp; use --framework megatron\n"))
        << outcome.err;
  }
}

TEST(RankOrder, MustNameEveryAxisOnce) {
  const auto error = [](const char* order) {
    return run_with({"predict", "19M", "--framework", "megatron", "--ranks", "4", "--pp", "2", "--rank-order",
                     order})
        .err;
  };
  EXPECT_EQ(error("tp-dp"), "commlens: the order tp-dp does not name the axis pp of size 2\n");
  EXPECT_EQ(error("tp-dp-pp-x"),
            "commlens: the order tp-dp-pp-x names x, of which the layout has no degree\n");
  EXPECT_EQ(error("tp--dp").find("commlens: --rank-order: "), 0u) << error("tp--dp");
}

TEST(RankOrder, IsNoComparisonOfOrder) {
  const Outcome outcome = run_with({"compare", "19M", "19M", "--framework", "megatron", "--ranks", "4",
                                    "--pp", "2", "--order", "--rank-order", "tp-cp-ep-pp-dp"});
  EXPECT_EQ(outcome.code, ExitCode::done) << outcome.err;
  EXPECT_EQ(outcome.out.rfind("equal: ", 0), 0u) << outcome.out;
}

}  // namespace
}  // namespace commlens
