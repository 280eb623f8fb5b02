#include "commlens/formats/calls_csv/import.hpp"

#include <array>

#include <gtest/gtest.h>

#include "commlens/trace/test_support.hpp"

namespace commlens::formats::calls_csv {
namespace {

using test_support::ScratchDirectory;

constexpr std::string_view k_csv_header =
    "rank,iteration,phase,op,dtype,input_bytes,output_bytes,group,root,name\n";

Result<Trace> read_csv(std::string_view text) {
  const ScratchDirectory directory;
  return read(directory.write("calls.csv", text));
}

std::string csv_error_of(std::string_view text) {
  const Result<Trace> trace = read_csv(text);
  return trace ? "no error" : trace.error().message;
}

TEST(CallsCsv, ReadsColumnsByTheirNames) {
  const Result<Trace> trace = read_csv(
      "op,rank,extra,iteration,group,dtype,input_bytes,output_bytes,root,name\r\n"
      "broadcast,3,\"a,b\",-1,1 3,fp16,6,6,1,\"say \"\"hi\"\", twice\"\r\n"
      "\r\n"
      "all_reduce,1,,,1 3,fp16,4,4,,\"two\nlines\"\n");
  ASSERT_TRUE(trace) << trace.error().message;
  ASSERT_EQ(trace->streams.size(), 2U);
  EXPECT_EQ(trace->streams[0].events.at(0).iteration, k_unknown_iteration);
  const CommOp& broadcast = trace->op(trace->streams[1].events.at(0).op);
  EXPECT_EQ(broadcast.kind, CommKind::broadcast);
  EXPECT_EQ(broadcast.root, GroupRank{0});
  EXPECT_EQ(broadcast.input, Elements{3});
  EXPECT_EQ(trace->names.text(broadcast.name), "say \"hi\", twice");
  EXPECT_EQ(trace->names.text(trace->op(trace->streams[0].events.at(0).op).name), "two\nlines");
}

TEST(CallsCsv, SaysWhichColumnOfWhichLineIsWrong) {
  const std::vector<std::array<std::string, 2>> cases = {
      {"x,0,,send,fp32,4,0,0 1,,", "calls.csv:2: column \"rank\": 'x' is not an integer"},
      {"0,0,,send,fp32,4,0,0  1,,", "calls.csv:2: column \"group\": '' is not an integer"},
      {"0,0,,send,fp32,4,0,0;1,,", "calls.csv:2: column \"group\": '0;1' is not an integer"},
      {"0,0,,send,fp32,4,0", "calls.csv:2: 7 columns, the header has 10"},
      {"0,0,,send,fp32,4,0,0 1,,,", "calls.csv:2: 11 columns, the header has 10"},
      {"0,0,,send,fp32,99999999999999999999,0,0 1,,",
       "column \"input_bytes\": 99999999999999999999 does not fit"},
      {"0,0,,send,fp32,,0,0 1,,", "field \"input_bytes\" is missing"},
      {"0,0,,send,fp32,5,0,0 1,,", "not a multiple of the 4 bytes"},
      {"0,0,,send,fp32,4,0,0 1,,\"open", "calls.csv:2: the file ends inside quotes"},
  };
  for (const auto& [row, said] : cases) {
    const std::string error = csv_error_of(std::string(k_csv_header) + row);
    EXPECT_NE(error.find(said), std::string::npos) << error;
  }
}

TEST(CallsCsv, RefusesAHeaderThatNamesAColumnTwice) {
  EXPECT_NE(csv_error_of("rank,op,rank\n").find("calls.csv:1: column \"rank\" appears twice"),
            std::string::npos);
}

TEST(CallsCsv, WithoutCallsIsAnError) {
  EXPECT_NE(csv_error_of("").find("no calls in it"), std::string::npos);
  EXPECT_NE(csv_error_of(k_csv_header).find("no calls in it"), std::string::npos);
}

TEST(CallsCsv, RefusesAQuoteThatNeverCloses) {
  const std::string row = std::string(1 << 20, 'x') + "\n";
  std::string text = std::string(k_csv_header) + "\"";
  for (int line = 0; line < 18; ++line) {
    text += row;
  }
  EXPECT_NE(csv_error_of(text).find("is a quote left open?"), std::string::npos);
}

TEST(CallsCsv, SniffsItsHeader) {
  EXPECT_TRUE(sniff("f", k_csv_header));
  EXPECT_TRUE(sniff("f", "\xef\xbb\xbfinput_bytes,op,rank"));
  EXPECT_FALSE(sniff("f", ""));
  EXPECT_FALSE(sniff("f", "rank,op\ninput_bytes"));
}

}  // namespace
}  // namespace commlens::formats::calls_csv
