#include "commlens/formats/calls_jsonl/import.hpp"

#include <array>
#include <chrono>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "commlens/trace/test_support.hpp"

namespace commlens::formats::calls_jsonl {
namespace {

using test_support::ScratchDirectory;

// The example of docs/formats/calls.md.
constexpr std::string_view k_broadcast =
    R"({"rank":0,"iteration":-1,"phase":"init","op":"broadcast","dtype":"fp32","input_bytes":512000,)"
    R"("output_bytes":512000,"group":[0,1,2,3],"root":0})";

Result<Trace> read_jsonl(std::string_view text) {
  const ScratchDirectory directory;
  return read(directory.write("calls.jsonl", text));
}

std::string jsonl_error_of(std::string_view text) {
  const Result<Trace> trace = read_jsonl(text);
  return trace ? "no error" : trace.error().message;
}

/// k_broadcast with one field written another way.
std::string with(std::string_view from, std::string_view to) {
  std::string line(k_broadcast);
  const std::size_t at = line.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return line.replace(at, from.size(), to);
}

TEST(CallsJsonl, ReadsTheDocumentedExample) {
  const Result<Trace> trace = read_jsonl(k_broadcast);
  ASSERT_TRUE(trace) << trace.error().message;
  ASSERT_EQ(trace->streams.size(), 1U);
  ASSERT_EQ(trace->streams[0].events.size(), 1U);
  EXPECT_EQ(trace->streams[0].events[0].iteration, k_init_iteration);
  EXPECT_EQ(trace->streams[0].events[0].micro_batch, k_no_micro_batch);
  const CommOp& op = trace->op(trace->streams[0].events[0].op);
  EXPECT_EQ(op.kind, CommKind::broadcast);
  EXPECT_EQ(op.dtype, DType::fp32);
  EXPECT_EQ(op.phase, Phase::init);
  EXPECT_EQ(op.input, Elements{128'000});
  EXPECT_EQ(op.output, Elements{128'000});
  EXPECT_EQ(op.root, GroupRank{0});
  EXPECT_EQ(trace->groups.members(op.group, Rank{0}), (std::vector<Rank>{{0}, {1}, {2}, {3}}));
  EXPECT_EQ(trace->provenance.source, Source::imported);
  EXPECT_EQ(trace->provenance.accounting, Accounting::messages);
  EXPECT_TRUE(trace->provenance.skipped.empty());
}

TEST(CallsJsonl, TakesTheRootAsAPositionInTheGroup) {
  const Result<Trace> trace = read_jsonl(
      R"({"rank":7,"iteration":0,"op":"reduce","dtype":"fp16","input_bytes":2,"output_bytes":2,"group":[3,5,7],"root":5})");
  ASSERT_TRUE(trace) << trace.error().message;
  EXPECT_EQ(trace->ops().at(0).root, GroupRank{1});
}

TEST(CallsJsonl, KeepsEachRanksOrderWhateverTheOrderOfRanks) {
  std::string text;
  for (const auto& [rank, bytes] : {std::pair(2, 8), {0, 4}, {2, 4}, {0, 12}}) {
    text += fmt::format(
        R"({{"rank":{},"iteration":0,"op":"all_reduce","dtype":"fp32","input_bytes":{},"output_bytes":{},"group":[0,2]}})"
        "\n\n",
        rank, bytes, bytes);
  }
  const Result<Trace> trace = read_jsonl(text);
  ASSERT_TRUE(trace) << trace.error().message;
  ASSERT_EQ(trace->streams.size(), 2U);
  EXPECT_EQ(trace->streams[0].ranks, (RankRange{{0}, {0}}));
  EXPECT_EQ(trace->streams[1].ranks, (RankRange{{2}, {2}}));
  EXPECT_EQ(trace->op(trace->streams[0].events.at(1).op).input, Elements{3});
  EXPECT_EQ(trace->op(trace->streams[1].events.at(0).op).input, Elements{2});
  EXPECT_EQ(trace->ops().size(), 3U);
}

TEST(CallsJsonl, ReadsEveryOptionalField) {
  const Result<Trace> trace = read_jsonl(
      R"({"name":"gather","rule":"zero3.fetch","tag":"layer 3","micro_batch":2,"start_ns":-5,"duration_ns":7,)"
      R"("data_dependent":true,"rounding_bytes":6,"rank":1,"iteration":4,"phase":"RecvGrad","op":"other",)"
      R"("dtype":"int64","input_bytes":8,"output_bytes":16,"group":[1,2],"root":2,"site":"a.py:1",)"
      R"("reduce_op":"premul_sum","algorithm":"RING","protocol":"simple","blocking":false,"note":"late"})");
  ASSERT_TRUE(trace) << trace.error().message;
  const CommOp& op = trace->ops().at(0);
  EXPECT_EQ(trace->names.text(op.name), "gather");
  EXPECT_EQ(trace->rule(op.rule).name, "zero3.fetch");
  EXPECT_EQ(trace->tags.text(op.tag), "layer 3");
  EXPECT_EQ(op.phase, Phase::backward);
  EXPECT_EQ(op.root, GroupRank{1});
  EXPECT_EQ(op.match, Match::count);
  EXPECT_EQ(op.rounding, Bytes{6});
  EXPECT_EQ(op.reduction, Reduction::premul_sum);
  EXPECT_EQ(op.algorithm, Algorithm::ring);
  EXPECT_EQ(op.protocol, Protocol::simple);
  EXPECT_EQ(op.blocking, false);
  EXPECT_EQ(trace->names.text(op.site), "a.py:1");
  EXPECT_EQ(trace->names.text(op.note), "late");
  EXPECT_EQ(trace->streams[0].events[0].micro_batch, 2);
  using std::chrono::nanoseconds;
  EXPECT_EQ(trace->streams[0].times.at(0), (Times{nanoseconds(-5), nanoseconds(-5), nanoseconds(2)}));
}

TEST(CallsJsonl, ReadsHowACallIsCompared) {
  const auto match_of = [](std::string_view field) {
    const Result<Trace> trace = read_jsonl(with("{", fmt::format("{{{},", field)));
    return trace ? trace->ops().at(0).match : throw std::runtime_error(trace.error().message);
  };
  EXPECT_EQ(match_of(R"("match":"count")"), Match::count);
  EXPECT_EQ(match_of(R"("match":"random")"), Match::random);
  EXPECT_EQ(match_of(R"("match":"exact","data_dependent":true)"), Match::exact);
  EXPECT_EQ(match_of(R"("data_dependent":false)"), Match::exact);
}

TEST(CallsJsonl, KeepsReductionsItDoesNotKnowAsOther) {
  const Result<Trace> trace = read_jsonl(with("{", R"({"reduce_op":"median","algorithm":"bruck",)"));
  ASSERT_TRUE(trace) << trace.error().message;
  EXPECT_EQ(trace->ops().at(0).reduction, Reduction::other);
  EXPECT_EQ(trace->ops().at(0).algorithm, Algorithm::unknown);
}

TEST(CallsJsonl, SkipsUnknownFields) {
  const Result<Trace> trace =
      read_jsonl(with("{", R"({"x":{"rank":9,"deep":[1,[2,{"op":null}]]},"y":-1.5e300,)"));
  ASSERT_TRUE(trace) << trace.error().message;
  EXPECT_EQ(trace->ops().size(), 1U);
}

TEST(CallsJsonl, TakesNullForAbsentAndForAnUnknownIteration) {
  const Result<Trace> trace = read_jsonl(with("-1", R"(null,"peer":null,"tag":null)"));
  ASSERT_TRUE(trace) << trace.error().message;
  EXPECT_EQ(trace->streams[0].events[0].iteration, k_unknown_iteration);
}

TEST(CallsJsonl, LetsABarrierLeaveOutTypeAndSizes) {
  const Result<Trace> trace = read_jsonl(R"({"rank":0,"iteration":0,"op":"barrier","group":[0,1]})");
  ASSERT_TRUE(trace) << trace.error().message;
  EXPECT_EQ(trace->ops().at(0).input, Elements{0});
}

TEST(CallsJsonl, DropsAndCountsTimesThatOtherCallsOfTheRankLack) {
  const std::string timed = with("{", R"({"start_ns":1,"duration_ns":1,)");
  const std::string half = with("{", R"({"start_ns":1,)");
  const Result<Trace> trace = read_jsonl(timed + "\n" + std::string(k_broadcast) + "\n" + half + "\n");
  ASSERT_TRUE(trace) << trace.error().message;
  EXPECT_TRUE(trace->streams[0].times.empty());
  EXPECT_EQ(trace->provenance.skipped,
            (std::map<std::string, std::int64_t>{{"time where other calls of the rank have none", 2}}));
}

TEST(CallsJsonl, SaysWhichFieldOfWhichLineIsWrong) {
  const std::vector<std::array<std::string, 3>> cases = {
      {"\"rank\":0", "\"rank\":-1", "\"rank\" is -1, expected 0 to 16777215"},
      {"\"rank\":0", "\"rank\":16777216", "\"rank\" is 16777216"},
      {"\"rank\":0", "\"rank\":0.0", "\"rank\" must be an integer"},
      {"\"rank\":0", "\"rank\":9223372036854775808", "\"rank\" must be an integer"},
      {"\"rank\":0", "\"rank\":1e999", "not valid JSON"},
      {"\"rank\":0", "\"rank\":\"0\"", "\"rank\" must be an integer"},
      {"\"rank\":0", "\"rank\":[0]", "\"rank\" must be an integer"},
      {"\"rank\":0", "\"rank\":{}", "\"rank\" must be an integer"},
      {"\"rank\":0", "\"rank\":true", "\"rank\" must be an integer"},
      {"\"rank\":0", "\"rank\":0,\"rank\":0", "\"rank\" appears twice"},
      {"\"rank\":0,", "", "\"rank\" is missing"},
      {"\"rank\":0", "\"rank\":9", "\"group\" does not name rank 9"},
      {"-1", "-2", "\"iteration\" is -2"},
      {"-1", "2147483648", "\"iteration\" is 2147483648"},
      {"\"iteration\":-1,", "", "\"iteration\" is missing"},
      {"broadcast", "brodcast", "\"op\" is \"brodcast\", which is unknown; did you mean \"broadcast\"?"},
      {"broadcast", "scan", "write \"other\" and put the name into \"name\""},
      {"\"op\":\"broadcast\",", "", "\"op\" is missing"},
      {"fp32", "float", "\"dtype\" is \"float\""},
      {"fp32", "fp3", "did you mean \"fp32\"?"},
      {"\"input_bytes\":512000", "\"input_bytes\":-4", "\"input_bytes\" is -4"},
      {"\"input_bytes\":512000", "\"input_bytes\":512001", "not a multiple of the 4 bytes of fp32"},
      {"\"input_bytes\":512000,", "", "\"input_bytes\" is missing"},
      {"\"output_bytes\":512000", "\"output_bytes\":1125899906842628",
       "\"output_bytes\" is 1125899906842628"},
      {"[0,1,2,3]", "[]", "\"root\" is 0, which is not in \"group\""},
      {"[0,1,2,3]", "[0,2,1,2]", "\"group\" must name each rank once: 2 is there twice"},
      {"[0,1,2,3]", "[0,0]", "each rank once"},
      {"[0,1,2,3]", "[-1,0]", "\"group\" names rank -1"},
      {"[0,1,2,3]", "[0,99999999999]", "\"group\" names rank 99999999999"},
      {"[0,1,2,3]", "[0,\"1\"]", "\"group\" must be an array of ranks"},
      {"[0,1,2,3]", "[0,null]", "\"group\" must be an array of ranks"},
      {"[0,1,2,3]", "[0,[1]]", "\"group\" must be an array of ranks"},
      {"[0,1,2,3]", "[0,{}]", "\"group\" must be an array of ranks"},
      {"[0,1,2,3]", "[0,1.5]", "\"group\" must be an array of ranks"},
      {"[0,1,2,3]", "0", "\"group\" must be an array of ranks"},
      {",\"group\":[0,1,2,3]", "", "\"group\" is missing"},
      {"\"root\":0", "\"root\":4", "\"root\" is 4, which is not in \"group\""},
      {",\"root\":0", "", "\"root\" is missing"},
      {"{", "{\"micro_batch\":-2,", "\"micro_batch\" is -2"},
      {"{", "{\"tag\":3,", "\"tag\" must be a string"},
      {"{", "{\"data_dependent\":1,", "\"data_dependent\" must be true or false"},
      {"{", "{\"blocking\":\"yes\",", "\"blocking\" must be true or false"},
      {"{", "{\"match\":\"exat\",", "\"match\" is \"exat\", which is unknown; did you mean \"exact\"?"},
      {"{", "{\"start_ns\":0,\"duration_ns\":-1,", "\"duration_ns\" is -1"},
      {"{", "{\"start_ns\":-9223372036854775808,\"duration_ns\":1,", "\"start_ns\" is"},
      {"{", "{\"rounding_bytes\":-1,", "\"rounding_bytes\" is -1"},
      {"}", "", "not valid JSON"},
      {"}", "}}", "not valid JSON"},
      {"}", "} {}", "not valid JSON"},
      {"init", "\xff", "not valid JSON"},
      {"init", std::string("\0", 1), "not valid JSON"},
  };
  for (const auto& [from, to, said] : cases) {
    const std::string error = jsonl_error_of("\n" + with(from, to) + "\n");
    EXPECT_NE(error.find("calls.jsonl:2: "), std::string::npos) << error;
    EXPECT_NE(error.find(said), std::string::npos) << error << "\n" << from << " -> " << to;
  }
}

TEST(CallsJsonl, ChecksThePairOfASendAndARecv) {
  constexpr std::string_view line =
      R"({{"rank":{},"iteration":0,"op":"{}","dtype":"fp16","input_bytes":2,"output_bytes":0,"group":{},"peer":{}}})";
  EXPECT_EQ(jsonl_error_of(fmt::format(line, 3, "send", "[3,1]", 1)), "no error");
  EXPECT_EQ(jsonl_error_of(fmt::format(line, 1, "recv", "[3,1]", 3)), "no error");
  EXPECT_NE(jsonl_error_of(fmt::format(line, 1, "send", "[3,1]", 3)).find("as the source of"),
            std::string::npos);
  EXPECT_NE(jsonl_error_of(fmt::format(line, 3, "recv", "[3,1]", 1)).find("as the destination of"),
            std::string::npos);
  EXPECT_NE(jsonl_error_of(fmt::format(line, 3, "send", "[3,1,2]", 1)).find("[source, destination]"),
            std::string::npos);
  EXPECT_NE(jsonl_error_of(fmt::format(line, 3, "send", "[3]", 1)).find("[source, destination]"),
            std::string::npos);
  EXPECT_NE(jsonl_error_of(fmt::format(line, 3, "send", "[3,1]", 2))
                .find("\"peer\" is 2, but \"group\" names rank 1"),
            std::string::npos);
}

TEST(CallsJsonl, RefusesLinesThatAreNoObjects) {
  for (const std::string_view line : {"7", "null", "\"rank\"", "[]", "[{}]", "true", "hello", "{", "{]"}) {
    EXPECT_NE(jsonl_error_of(line).find("calls.jsonl:1: "), std::string::npos)
        << line << ": " << jsonl_error_of(line);
  }
}

TEST(CallsJsonl, TellsWhenTheLastLineIsCutOff) {
  const std::string line(k_broadcast);
  EXPECT_NE(jsonl_error_of(line + "\n" + line.substr(0, 60)).find("calls.jsonl:2: "), std::string::npos);
  EXPECT_NE(jsonl_error_of(line.substr(0, 60)).find("(the file ends inside this line)"), std::string::npos);
}

TEST(CallsJsonl, WithoutCallsIsAnError) {
  EXPECT_NE(jsonl_error_of("").find("no calls in it"), std::string::npos);
  EXPECT_NE(jsonl_error_of("\n \n").find("no calls in it"), std::string::npos);
  const ScratchDirectory directory;
  EXPECT_NE(read(directory.path("x")).error().message.find("no such file"), std::string::npos);
}

TEST(CallsJsonl, RefusesDeepNestingAndGiganticLinesWithoutRecursion) {
  EXPECT_NE(jsonl_error_of("{\"x\":" + std::string(1'000'000, '[')).find("nested more than 64 levels"),
            std::string::npos);
  EXPECT_NE(jsonl_error_of(std::string(1'000'000, '[')).find("calls.jsonl:1: "), std::string::npos);
  EXPECT_NE(jsonl_error_of("{\"x\":" + std::string(1'000'000, '{')).find("not valid JSON"),
            std::string::npos);
  EXPECT_NE(jsonl_error_of("{\"x\":\"" + std::string(17U << 20, 'x')).find("more than 16 MiB"),
            std::string::npos);
}

TEST(CallsJsonl, SniffsACallByItsKeys) {
  const auto sniffs = [](std::string_view head) { return sniff("f", head); };
  EXPECT_TRUE(sniffs(k_broadcast));
  EXPECT_TRUE(sniffs("\n\n" + std::string(k_broadcast).substr(0, 70)));
  EXPECT_TRUE(sniffs("{ \"op\" : \"send\", \"rank\" : 0"));
  EXPECT_FALSE(sniffs(""));
  EXPECT_FALSE(sniffs("{}"));
  EXPECT_FALSE(sniffs("{\"op\":\"send\"}"));
  EXPECT_FALSE(sniffs("{\"text\":\"rank op\"}"));
  EXPECT_FALSE(sniffs("rank,op,input_bytes\n"));
}

// Logs recorded under the frameworks: calls per rank counted with a separate script (zcat | grep -c).
TEST(CallsJsonl, ReadsARecordedLog) {
  const char* const source = std::getenv("COMMLENS_SOURCE_DIR");
  const std::filesystem::path log = std::filesystem::path(source != nullptr ? source : ".") /
                                    "tests/golden/deepspeed/z3_N19_w4_fp32_default/calls.jsonl.gz";
  if (!std::filesystem::exists(log)) {
    GTEST_SKIP() << log << " is not there";
  }
  const Result<Trace> trace = read(log);
  ASSERT_TRUE(trace) << trace.error().message;
  ASSERT_EQ(trace->streams.size(), 4U);
  for (const RankStream& stream : trace->streams) {
    EXPECT_EQ(stream.events.size(), 467U);
  }
  EXPECT_EQ(trace->iterations(), (std::vector<Iteration>{-1, 0, 1, 2}));
}

}  // namespace
}  // namespace commlens::formats::calls_jsonl
