#include "commlens/formats/io/call_line_parser.hpp"

#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace commlens::formats {
namespace {

/// Every field that there is, and some that are none.
constexpr std::string_view k_every_field =
    R"({"rank":1,"iteration":-1,"phase":"init","op":"reduce","dtype":"fp32","input_bytes":8,"output_bytes":8,)"
    R"("group":[0,1,70000],"group_size":3,"group_name":"tp ü","communicator":"pg 1","root":1,"peer":null,"micro_batch":2,"tag":"t",)"
    R"("rule":"r","name":"n","site":"engine.py:1077","start_ns":-9223372036854775808,"duration_ns":-0,)"
    R"("data_dependent":true,"rounding_bytes":9223372036854775807,"x":[1,{"y":"z"}],"z":1.5e3, "w" : "\u00e9"})";

/// What both say of a line; they must agree on every field and on every message.
void expect_same(CallLineParser& parser, const std::string& line) {
  CallRecord fast;
  CallRecord careful;
  const Result<void> taken = parser.parse(line, fast);
  const Result<void> expected = parse_call_line(line, careful);
  ASSERT_EQ(taken.has_value(), expected.has_value()) << line;
  if (expected) {
    ASSERT_EQ(fast, careful) << line;
  } else {
    ASSERT_EQ(taken.error().message, expected.error().message) << line;
  }
}

/// The line, and the line without the fields that only the careful reader takes.
std::vector<std::string> lines() {
  std::string plain(k_every_field);
  plain.resize(plain.find(R"(,"x":)"));
  return {std::string(k_every_field), plain + "}", plain + R"(,"z":1.5e3,"w":"é","v":null,"u":false } )"};
}

TEST(CallLineParser, TakesEveryField) {
  CallLineParser parser;
  for (const std::string& line : lines()) {
    CallRecord record;
    const Result<void> taken = parser.parse(line, record);
    ASSERT_TRUE(taken) << taken.error().message;
    EXPECT_EQ(record.rank, 1);
    EXPECT_EQ(record.iteration, -1);
    EXPECT_FALSE(record.iteration_unknown);
    EXPECT_EQ(record.phase, Phase::init);
    EXPECT_EQ(record.op, CommKind::reduce);
    EXPECT_EQ(record.dtype, DType::fp32);
    EXPECT_EQ(record.input_bytes, 8);
    EXPECT_EQ(record.output_bytes, 8);
    EXPECT_TRUE(record.group.is_given);
    EXPECT_EQ(record.group.ranks, (std::vector<Rank>{{0}, {1}, {70000}}));
    EXPECT_EQ(record.group_size, 3);
    EXPECT_EQ(record.group_name, "tp ü");
    EXPECT_EQ(record.communicator, "pg 1");
    EXPECT_EQ(record.root, 1);
    EXPECT_FALSE(record.root_unknown);
    EXPECT_EQ(record.peer, std::nullopt);
    EXPECT_EQ(record.micro_batch, 2);
    EXPECT_EQ(record.tag, "t");
    EXPECT_EQ(record.rule, "r");
    EXPECT_EQ(record.name, "n");
    EXPECT_EQ(record.site, "engine.py:1077");
    EXPECT_EQ(record.start_ns, INT64_MIN);
    EXPECT_EQ(record.duration_ns, 0);
    EXPECT_TRUE(record.data_dependent);
    EXPECT_EQ(record.rounding_bytes, INT64_MAX);
  }
}

TEST(CallLineParser, KeepsNothingOfTheLineBefore) {
  CallLineParser parser;
  CallRecord record;
  for (const std::string& line : lines()) {
    ASSERT_TRUE(parser.parse(line, record));
  }
  ASSERT_TRUE(parser.parse(R"({"op":"barrier"})", record));
  CallRecord expected;
  expected.op = CommKind::barrier;
  EXPECT_EQ(record, expected);
  ASSERT_TRUE(parser.parse(R"({"group":null,"root":null,"iteration":null})", record));
  expected = {};
  expected.root_unknown = expected.iteration_unknown = true;
  EXPECT_EQ(record, expected);
}

TEST(CallLineParser, AgreesWithTheCarefulReaderOnEveryDamagedLine) {
  CallLineParser parser;
  for (const std::string& line : lines()) {
    expect_same(parser, line);
    for (std::size_t at = 0; at < line.size(); ++at) {
      expect_same(parser, line.substr(0, at));
      expect_same(parser, std::string(line).erase(at, 1));
      for (const char put : std::string_view("\"\\{}[]:,-.0e9tn \t\r\n\f\x01\x7f\x80\xc3\xed\0", 26)) {
        expect_same(parser, std::string(line).insert(at, 1, put));
        expect_same(parser, std::string(line).replace(at, 1, 1, put));
      }
    }
  }
}

TEST(CallLineParser, AgreesWithTheCarefulReaderOnEveryValueOfEveryField) {
  const std::vector<std::string> values = {"null",
                                           "true",
                                           "false",
                                           "0",
                                           "-1",
                                           "1.0",
                                           "1e2",
                                           "01",
                                           "9223372036854775807",
                                           "9223372036854775808",
                                           "18446744073709551616",
                                           "-9223372036854775809",
                                           "1e999",
                                           R"("")",
                                           R"("1")",
                                           R"("\ud800")",
                                           R"("\udc00")",
                                           R"("\u0000")",
                                           "\"\xed\xa0\x80\"",
                                           "\"\xf4\x90\x80\x80\"",
                                           "\"\xc0\x80\"",
                                           "[]",
                                           "[0]",
                                           "[0,1.0]",
                                           "[null]",
                                           "[[0]]",
                                           "[9223372036854775808]",
                                           "{}",
                                           R"({"rank":1})",
                                           std::string(70, '[') + std::string(70, ']'),
                                           ""};
  CallLineParser parser;
  for (const std::string key :
       {"rank", "iteration", "op", "group", "root", "data_dependent", "tag", "other", "", "ran\\u006b"}) {
    for (const std::string& value : values) {
      const std::string field = fmt::format(R"("{}":{})", key, value);
      expect_same(parser, fmt::format("{{{}}}", field));
      expect_same(parser, fmt::format("\xef\xbb\xbf{{{}}}", field));
      expect_same(parser, fmt::format("{{{0},{0}}}", field));
      expect_same(parser, fmt::format(R"({{{},"rank":null}})", field));
    }
  }
  for (const std::string& value : values) {
    expect_same(parser, value);
  }
}

TEST(CallLineParser, TakesACommunicatorAsANumberOrAsText) {
  CallLineParser parser;
  for (const auto& [value, text] : {std::pair{"7", "7"},
                                    {"\"7\"", "7"},
                                    {"-7", "-7"},
                                    {"18446744073709551615", "18446744073709551615"},
                                    {"null", ""}}) {
    CallRecord record;
    const std::string line = fmt::format(R"({{"rank":1,"communicator":{}}})", value);
    ASSERT_TRUE(parser.parse(line, record)) << line;
    EXPECT_EQ(record.communicator, text) << line;
    expect_same(parser, line);
  }
  for (const char* const value : {"1.5", "true", "[1]", "{}", "1e3"}) {
    expect_same(parser, fmt::format(R"({{"rank":1,"communicator":{}}})", value));
  }
  CallRecord record;
  const Result<void> taken = parser.parse(R"({"rank":1,"communicator":[1]})", record);
  ASSERT_FALSE(taken);
  EXPECT_EQ(taken.error().message, "field \"communicator\" must be a string or an integer");
}

}  // namespace
}  // namespace commlens::formats
