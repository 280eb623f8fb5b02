#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "commlens/base/test_support.hpp"
#include "commlens/cli/test_support.hpp"

// `summary --call-sites`; recordings of programs are in tests/capture/call_sites_test.cpp.

namespace commlens {
namespace {

using test_support::Outcome;
using test_support::run_with;
using test_support::ScratchDirectory;

/// Reductions of 64 bytes on two lines, once and twice, and one of 32 bytes whose place nobody knows.
constexpr const char* k_calls_of_sites =
    R"({"rank":0,"iteration":0,"op":"all_reduce","dtype":"fp32","input_bytes":64,"output_bytes":64,"group":[0,1],"site":"a.py:10","start_ns":0,"duration_ns":500}
{"rank":0,"iteration":0,"op":"all_reduce","dtype":"fp32","input_bytes":64,"output_bytes":64,"group":[0,1],"site":"a.py:20","start_ns":1000,"duration_ns":100}
{"rank":0,"iteration":0,"op":"all_reduce","dtype":"fp32","input_bytes":64,"output_bytes":64,"group":[0,1],"site":"a.py:20","start_ns":2000,"duration_ns":200}
{"rank":0,"iteration":0,"op":"all_reduce","dtype":"fp32","input_bytes":32,"output_bytes":32,"group":[0,1],"start_ns":3000,"duration_ns":50}
)";

TEST(SummaryOfCallSites, HasARowForEachPlaceMostBytesFirst) {
  const ScratchDirectory directory;
  const std::string calls = directory.write("calls.jsonl", k_calls_of_sites);
  const auto json =
      nlohmann::json::parse(run_with({"summary", calls, "--call-sites", "--format", "json"}).out).at("ops");
  ASSERT_EQ(json.size(), 3U);
  EXPECT_EQ(json[0]["site"], "a.py:20");
  EXPECT_EQ(json[0]["calls_all_ranks"], 2);
  EXPECT_EQ(json[0]["message_bytes_all_ranks"], 128);
  EXPECT_EQ(json[0]["time"]["time_ns_all_ranks"], 300);
  EXPECT_EQ(json[1]["site"], "a.py:10");
  EXPECT_EQ(json[1]["message_bytes_all_ranks"], 64);
  EXPECT_TRUE(json[2]["site"].is_null());
  EXPECT_EQ(json[2]["message_bytes_all_ranks"], 32);
  const std::string text = run_with({"summary", calls, "--call-sites"}).out;
  EXPECT_NE(text.find("per call site and op, all ranks together\n"), std::string::npos) << text;
  EXPECT_LT(text.find("a.py:20"), text.find("a.py:10")) << text;
}

TEST(SummaryOfCallSites, IsRefusedWithoutPlaces) {
  const ScratchDirectory directory;
  const std::string calls = directory.write(
      "calls.jsonl",
      R"({"rank":0,"iteration":0,"op":"all_reduce","dtype":"fp32","input_bytes":64,"output_bytes":64,"group":[0,1]})"
      "\n");
  const Outcome outcome = run_with({"summary", calls, "--call-sites"});
  EXPECT_EQ(outcome.code, ExitCode::bad_input);
  EXPECT_EQ(outcome.err,
            "commlens: --call-sites: " + calls +
                " does not say where calls were made; record it with commlens record --call-sites\n");
  EXPECT_EQ(
      nlohmann::json::parse(run_with({"summary", calls, "--format", "json"}).out)["ops"][0].count("site"),
      0U);
}

// Bytes that are no call site of a recording, and one of a file that is not there, stay readable.
TEST(SummaryOfCallSites, ShowsOffsetsOfFilesThatAreNotHere) {
  const ScratchDirectory directory;
  const std::string calls = directory.write(
      "calls.jsonl",
      R"({"rank":0,"iteration":0,"op":"barrier","dtype":"uint8","input_bytes":0,"output_bytes":0,"group":[0,1],"site":"/none/libx.so+0x1a2b"}
{"rank":0,"iteration":0,"op":"barrier","dtype":"uint8","input_bytes":0,"output_bytes":0,"group":[0,1],"site":"/none/libx.so+0xzz"}
)");
  const Outcome outcome = run_with({"summary", calls, "--call-sites", "--format", "csv"});
  EXPECT_EQ(outcome.code, ExitCode::done);
  EXPECT_EQ(
      outcome.err,
      "commlens: warning: /none/libx.so: not here as it was recorded, so its functions and lines are not "
      "known\n");
  EXPECT_NE(outcome.out.find(",libx.so+0x1a2b,"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find(",/none/libx.so+0xzz,"), std::string::npos) << outcome.out;
}

}  // namespace
}  // namespace commlens
