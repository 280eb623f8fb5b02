#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "commlens/cli/test_support.hpp"

namespace commlens {
namespace {

using test_support::Outcome;
using test_support::run_with;

TEST(Search, ListsTheFastestAndSaysWhatBinds) {
  const Outcome result = run_with(
      {"search", "1.3B", "--machine", "dgx_h100", "--gpus", "64", "--global-batch", "512", "--top", "3"});
  EXPECT_EQ(result.code, ExitCode::done) << result.err;
  for (const char* const part :
       {"1.3B, 512 sequences of 2,048 tokens in bf16, on 64 devices of dgx_h100", " layouts evaluated, ",
        "times: calibrated on 170 runs of H100, nemo, 90 % intervals of 6 %; with sharded parameters, as "
        "fsdp "
        "runs it: calibrated on 77 runs of H100, fsdp, 5 %;",
        " are equal within the error: ", "What binds the first: compute ", "\nOne change of the first\n",
        "micro-batch "}) {
    EXPECT_NE(result.out.find(part), std::string::npos) << part << "\n" << result.out;
  }
}

TEST(Search, GivesEveryNumberAnIntervalAndASource) {
  const Outcome result = run_with({"search", "megatron/mixtral-8x7b", "--machine", "dgx_h100", "--gpus", "64",
                                   "--top", "4", "--format", "json"});
  EXPECT_EQ(result.code, ExitCode::done) << result.err;
  const nlohmann::json json = nlohmann::json::parse(result.out);
  EXPECT_EQ(json["schema"], "commlens.search/1");
  ASSERT_EQ(json["rows"].size(), 4);
  for (const char* const list : {"rows", "front", "changes"}) {
    for (const nlohmann::json& row : json[list]) {
      EXPECT_LT(row["low_s"], row["time_s"]);
      EXPECT_GT(row["high_s"], row["time_s"]);
    }
  }
  const nlohmann::json& first = json["rows"][0];
  for (const nlohmann::json& row : json["rows"]) {
    const bool is_sharded = row["data_parallelism"].get<std::string>().starts_with("sharded");
    EXPECT_EQ(row["provenance"], is_sharded
                                     ? "borrowed from H100, fsdp, which has not seen mixtures of experts"
                                     : "calibrated on 170 runs of H100, nemo");
  }
  EXPECT_EQ(first["dp"].get<int>() * first["tp"].get<int>() * first["pp"].get<int>() * first["cp"].get<int>(),
            64);
  const double parts = first["compute_s"].get<double>() + first["tensor_messages_s"].get<double>() +
                       first["bubble_s"].get<double>() + first["stage_messages_s"].get<double>() +
                       first["data_messages_s"].get<double>() + first["optimizer_s"].get<double>() +
                       first["other_s"].get<double>();
  EXPECT_NEAR(parts / first["time_s"].get<double>(), 1, 1e-12);
}

TEST(Search, SimulatesShardedLayoutsWithIntervalAndSource) {
  for (const auto& [model, planner] :
       {std::pair("1.3B", "torch-fsdp"), std::pair("llama3-8b", "torchtitan")}) {
    SCOPED_TRACE(model);
    const Outcome result =
        run_with({"search", model, "--machine", "dgx_h100", "--gpus", "16", "--global-batch", "64",
                  "--framework", "fsdp", "--retime", "3", "--top", "1", "--format", "json"});
    ASSERT_EQ(result.code, ExitCode::done) << result.err;
    const nlohmann::json json = nlohmann::json::parse(result.out);
    EXPECT_EQ(json["simulated_layouts"], 3);
    std::int64_t simulated = 0;
    for (const nlohmann::json& row : json["rows"]) {
      if (row["simulated_s"].is_null()) {
        EXPECT_FALSE(row["reason"].is_null());
        continue;
      }
      ++simulated;
      EXPECT_LT(row["simulated_low_s"], row["simulated_s"]);
      EXPECT_GT(row["simulated_high_s"], row["simulated_s"]);
      EXPECT_TRUE(row["simulated_provenance"].get<std::string>().starts_with(planner))
          << row["simulated_provenance"];
    }
    EXPECT_EQ(simulated, 3);
  }
}

TEST(Search, PassesOverWhatCannotBePlannedAndSaysWhy) {
  const Outcome result = run_with({"search", "1.3B", "--machine", "dgx_a100", "--gpus", "8", "--global-batch",
                                   "64", "--framework", "owners", "--retime", "2"});
  ASSERT_EQ(result.code, ExitCode::done) << result.err;
  EXPECT_NE(result.out.find("Simulated: 0 of the first 16."), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("Passed over: 16 (no framework plans such jobs)."), std::string::npos)
      << result.out;
}

TEST(Search, SweepsOverNumbersOfDevices) {
  const Outcome result = run_with({"search", "13B", "--machine", "dgx_a100", "--gpus", "16", "--global-batch",
                                   "64", "--sweep", "gpus", "--format", "csv"});
  EXPECT_EQ(result.code, ExitCode::done) << result.err;
  EXPECT_TRUE(result.out.starts_with("rank_count,time_s,low_s,high_s,memory_bytes_per_rank,"));
  EXPECT_NE(result.out.find("\n1,,"), std::string::npos) << "13B does not fit on one device\n" << result.out;
  EXPECT_NE(result.out.find("memory: at least "), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("\n16,"), std::string::npos) << result.out;
}

TEST(Search, RefusesBadInputInOneLine) {
  const auto refused = [](const std::vector<std::string>& arguments, const char* reason) {
    const Outcome result = run_with(arguments);
    EXPECT_EQ(result.code, ExitCode::bad_input);
    EXPECT_NE(result.err.find(reason), std::string::npos) << result.err;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  };
  refused({"search", "1.3B", "--machine", "dgx_h100", "--gpus", "8"},
          "1.3B does not say how many sequences an iteration trains on; give --global-batch");
  refused({"search", "1.4B", "--machine", "dgx_h100", "--gpus", "8", "--global-batch", "8"},
          "'1.4B' is neither");
  refused({"search", "1.3B", "--machine", "dgx_h101", "--gpus", "8", "--global-batch", "8"}, "dgx_h101");
  refused({"search", "175B", "--machine", "dgx_h100", "--gpus", "8", "--global-batch", "8"}, "memory binds");
  refused({"search", "1.3B", "--machine", "frontier", "--gpus", "80000", "--global-batch", "8"},
          "--gpus 80000: frontier has 78848 devices");
  refused({"search", "1.3B", "--machine", "dgx_h100", "--gpus", "88", "--global-batch", "7"},
          "--global-batch 7");
  refused({"search", "1.3B", "--machine", "dgx_h100", "--gpus", "8", "--global-batch", "8", "--precision",
           "int3"},
          "--precision int3: choose bf16, fp8 or fp4");
}

}  // namespace
}  // namespace commlens
