#include "commlens/trace/trace_file.hpp"

#include <cstdint>
#include <cstring>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "commlens/trace/test_support.hpp"

namespace commlens {
namespace {

using test_support::content_of;
using test_support::ScratchDirectory;
using test_support::spelled_calls;

/// Two ranks, one op, two calls each without times.
Trace small_trace() {
  Trace trace;
  const GroupId group = trace.groups.intern({Rank{0}, Rank{1}}, Axis::dp);
  const OpId op = trace.intern(CommOp{.kind = CommKind::all_reduce,
                                      .dtype = DType::fp16,
                                      .phase = Phase::backward,
                                      .group = group,
                                      .input = Elements{1000},
                                      .output = Elements{1000}});
  for (const std::int64_t rank : {0, 1}) {
    trace.streams.push_back({{Rank{rank}, Rank{rank}}, {{op, -1, -1}, {op, 0, 3}}, {}});
  }
  return trace;
}

/// Rank 0 alone with times; the records are those of docs/formats/trace.md.
Trace timed_trace() {
  Trace trace = small_trace();
  trace.streams.pop_back();
  using std::chrono::nanoseconds;
  trace.streams[0].times = {{nanoseconds(90), nanoseconds(100), nanoseconds(350)},
                            {nanoseconds(1000), nanoseconds(1000), nanoseconds(1000)}};
  return trace;
}

std::string error_of(const std::filesystem::path& directory) {
  const Result<Trace> trace = read_trace(directory);
  return trace ? "no error" : trace.error().message;
}

void replace_in(const std::filesystem::path& file, std::string_view from, std::string_view to) {
  std::string text = content_of(file);
  const std::size_t at = text.find(from);
  ASSERT_NE(at, std::string::npos) << from;
  std::ofstream(file, std::ios::binary) << text.replace(at, from.size(), to);
}

TEST(TraceFile, HoldsWhatIsSaidOfTheSource) {
  for (const bool is_said : {false, true}) {
    const ScratchDirectory directory;
    Trace trace = test_support::RandomTrace(1).with_communicators().make();
    if (is_said) {
      trace.provenance.assumed = {{"rank \"not\" said", 3}, {"", 1}};
      trace.provenance.averaged_times = true;
      trace.provenance.job_ranks = 12345;
      trace.provenance.progress = false;
    }
    write_trace(trace, directory / "t");
    const Result<Trace> read = read_trace(directory / "t");
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(read->provenance.assumed, trace.provenance.assumed);
    EXPECT_EQ(read->provenance.averaged_times, is_said);
    EXPECT_EQ(read->provenance.job_ranks, is_said ? 12345 : 0);
    EXPECT_EQ(read->provenance.progress, is_said ? std::optional(false) : std::nullopt);
  }
}

TEST(TraceFile, HoldsEveryTraceUnchanged) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const ScratchDirectory directory;
    const Trace trace = test_support::RandomTrace(seed).with_communicators().make();
    write_trace(trace, directory / "t");
    ASSERT_TRUE(is_trace(directory / "t")) << "seed=" << seed;
    const Result<Trace> read = read_trace(directory / "t");
    ASSERT_TRUE(read) << "seed=" << seed << ": " << read.error().message;
    EXPECT_EQ(read->rules(), trace.rules()) << "seed=" << seed;
    EXPECT_EQ(read->groups.mesh(), trace.groups.mesh()) << "seed=" << seed;
    EXPECT_EQ(read->provenance.source, trace.provenance.source);
    EXPECT_EQ(read->provenance.description, trace.provenance.description);
    EXPECT_EQ(read->provenance.verified, trace.provenance.verified);
    EXPECT_EQ(read->provenance.skipped, trace.provenance.skipped);
    ASSERT_EQ(read->ranks(), trace.ranks());
    for (Rank rank{0}; rank.value < trace.ranks(); ++rank.value) {
      ASSERT_TRUE(spelled_calls(*read, rank) == spelled_calls(trace, rank))
          << "seed=" << seed << " rank=" << rank.value;
    }
  }
}

// The bytes of docs/formats/trace.md, written out by hand.
TEST(TraceFile, WritesTheDocumentedBytes) {
  const ScratchDirectory directory;
  write_trace(timed_trace(), directory / "t");
  const std::string expected(
      "commlens"
      "\x02\x00\x00\x00\x40\x00\x00\x00\x20\x00\x00\x00\x00\x00\x00\x00"  // version, header, record, stream
      "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"  // first and last rank
      "\x02\x00\x00\x00\x00\x00\x00\x00"                                  // records in use
      "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"  // none dropped
      "\x01\x00\x00\x00\xff\xff\xff\xff\x64\x00\x00\x00\x00\x00\x00\x00"  // op 0, iteration -1, started 100
      "\xfa\x00\x00\x00\x00\x00\x00\x00\x0a\x00\x00\x00\xff\xff\xff\xff"  // lasts 250, issued 10 before, no
                                                                          // micro-batch
      "\x01\x00\x00\x00\x00\x00\x00\x00\xe8\x03\x00\x00\x00\x00\x00\x00"  // op 0, iteration 0, started 1000
      "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00",
      128);
  EXPECT_EQ(content_of(directory / "t/stream-0.bin"), expected);
}

TEST(TraceFile, KeepsTimesExactly) {
  const ScratchDirectory directory;
  write_trace(timed_trace(), directory / "t");
  const Result<Trace> read = read_trace(directory / "t");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->streams[0].times, timed_trace().streams[0].times);
}

TEST(TraceFile, KeepsGroupsWhoseRanksAreNotKnown) {
  const ScratchDirectory directory;
  Trace trace;
  const GroupId group = trace.groups.intern_hidden(128, "pg \"3\"", Axis::dp);
  const OpId op = trace.intern(CommOp{.kind = CommKind::all_reduce, .group = group});
  trace.streams.push_back({{Rank{5}, Rank{5}}, {{op, 0}}, {}, {}});
  write_trace(trace, directory / "t");
  const Result<Trace> back = read_trace(directory / "t");
  ASSERT_TRUE(back.has_value()) << back.error().message;
  const GroupId read = back->op(back->streams[0].events[0].op).group;
  EXPECT_EQ(back->groups.size(read), 128);
  EXPECT_EQ(back->groups.name(read), "pg \"3\"");
  EXPECT_EQ(back->groups.axis(read), Axis::dp);
  EXPECT_FALSE(back->groups.knows_members(read));
}

TEST(TraceFile, ReplacesATraceAndLeavesNothingBeside) {
  const ScratchDirectory directory;
  write_trace(small_trace(), directory / "t");
  write_trace(timed_trace(), directory / "t/");
  const Result<Trace> read = read_trace(directory / "t");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->streams.size(), 1U);
  const std::filesystem::directory_iterator entries(directory / ".");
  EXPECT_EQ(std::distance(begin(entries), end(entries)), 1);
  EXPECT_FALSE(std::filesystem::exists(directory / "t/stream-1.bin"));
}

TEST(TraceFile, FillsAnEmptyDirectory) {
  const ScratchDirectory directory;
  std::filesystem::create_directories(directory / "deep/t");
  write_trace(small_trace(), directory / "deep/t");
  EXPECT_TRUE(read_trace(directory / "deep/t"));
}

TEST(TraceFile, MakesTheDirectoriesAbove) {
  const ScratchDirectory directory;
  write_trace(small_trace(), directory / "a/b/t");
  EXPECT_TRUE(read_trace(directory / "a/b/t"));
}

TEST(TraceFile, NeverReplacesAnythingElse) {
  const ScratchDirectory directory;
  directory.write("file", "precious");
  EXPECT_THROW(write_trace(small_trace(), directory / "file"), SystemError);
  std::filesystem::create_directory(directory / "photos");
  directory.write("photos/cat.jpg", "precious");
  EXPECT_THROW(write_trace(small_trace(), directory / "photos"), SystemError);
  write_trace(small_trace(), directory / "t");
  directory.write("t/notes.txt", "precious");
  EXPECT_THROW(write_trace(small_trace(), directory / "t"), SystemError);
  EXPECT_EQ(content_of(directory / "file") + content_of(directory / "photos/cat.jpg") +
                content_of(directory / "t/notes.txt"),
            "preciouspreciousprecious");
}

TEST(TraceFile, ThrowsWhereNothingCanBeWritten) {
  EXPECT_THROW(write_trace(small_trace(), "/proc/commlens/t"), SystemError);
}

TEST(TraceFile, WithATornLastRecordKeepsTheWholeOnes) {
  const ScratchDirectory directory;
  write_trace(small_trace(), directory / "t");
  for (const std::uintmax_t size : {127U, 97U}) {
    std::filesystem::resize_file(directory / "t/stream-0.bin", size);
    const Result<Trace> read = read_trace(directory / "t");
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(read->streams[0].events.size(), 1U) << "size=" << size;
    EXPECT_EQ(read->provenance.skipped, (std::map<std::string, std::int64_t>{{"torn record", 1}}))
        << "size=" << size;
  }
}

TEST(TraceFile, CountsRecordsThatAreMissing) {
  const ScratchDirectory directory;
  write_trace(small_trace(), directory / "t");
  std::filesystem::resize_file(directory / "t/stream-0.bin", 64);
  const Result<Trace> read = read_trace(directory / "t");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->provenance.skipped,
            (std::map<std::string, std::int64_t>{{"record missing at the end of a stream", 2}}));
}

TEST(TraceFile, SaysWhatIsWrongWithAStream) {
  struct Case {
    std::size_t offset;
    std::string bytes;
    std::string said;
  };
  const std::vector<Case> cases = {
      {0, "C", "its first bytes are not \"commlens\""},
      {8, "\x04", "version 4, this program reads versions 1 to 3"},
      {8, std::string(1, '\0'), "version 0, this program reads versions 1 to 3"},
      {8, "\x03", "header of 64 bytes, expected at least 128"},
      {12, "\x41", "header of 65 bytes"},
      {16, "\x21", "records of 33"},
      {32, "\x01", "holds ranks 0 to 1, the manifest says 0 to 0"},
      {55, "\x01", "says that 72057594037927936 and 0 calls were dropped"},
  };
  for (const Case& c : cases) {
    const ScratchDirectory directory;
    write_trace(timed_trace(), directory / "t");
    std::string bytes = content_of(directory / "t/stream-0.bin");
    directory.write("t/stream-0.bin", bytes.replace(c.offset, c.bytes.size(), c.bytes));
    EXPECT_NE(error_of(directory / "t").find("stream-0.bin: "), std::string::npos) << c.said;
    EXPECT_NE(error_of(directory / "t").find(c.said), std::string::npos) << error_of(directory / "t");
  }
}

TEST(TraceFile, CountsRecordsThatAreImpossible) {
  const std::vector<std::pair<std::size_t, std::string>> cases = {
      {100, "\xfe\xff\xff\xff"},  // iteration -2
      {124, "\xfe\xff\xff\xff"},  // micro-batch -2
      {79, "\x7f"},               // starts in 292 years …
      {87, "\x7f"},               // lasts as long
      {87, "\x80"}};              // lasts less than nothing
  for (const auto& [offset, bytes] : cases) {
    const ScratchDirectory directory;
    write_trace(timed_trace(), directory / "t");
    std::string content = content_of(directory / "t/stream-0.bin");
    directory.write("t/stream-0.bin", content.replace(offset, bytes.size(), bytes));
    const Result<Trace> read = read_trace(directory / "t");
    ASSERT_TRUE(read) << offset << ": " << read.error().message;
    EXPECT_EQ(read->streams[0].events.size(), 1U) << offset;
    EXPECT_EQ(read->provenance.skipped.at("call lost, impossible record"), 1) << offset;
  }
}

// As version 1 wrote them: rows from 0, and no number in the manifest.
TEST(TraceFile, OfVersionOneIsRead) {
  const ScratchDirectory directory;
  write_trace(timed_trace(), directory / "t");
  replace_in(directory / "t/manifest.json", ", \"version\": 2", "");
  std::string content = content_of(directory / "t/stream-0.bin");
  content[8] = 1;
  content[64] = 0;
  content[96] = 0;
  directory.write("t/stream-0.bin", content);
  const Result<Trace> read = read_trace(directory / "t");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->streams[0].times, timed_trace().streams[0].times);
  EXPECT_TRUE(read->provenance.skipped.empty());
  // A lost part of it, and a lost header, which does not say that the version is 1.
  directory.write("t/stream-0.bin", content.substr(0, 96) + std::string(32, '\0'));
  const Result<Trace> lost = read_trace(directory / "t");
  ASSERT_TRUE(lost) << lost.error().message;
  EXPECT_EQ(lost->streams[0].events.size(), 1U);
  EXPECT_EQ(lost->provenance.skipped.at("call lost, record of zeros"), 1);
  directory.write("t/stream-0.bin", std::string(64, '\0') + content.substr(64));
  EXPECT_NE(error_of(directory / "t").find("its first bytes are not \"commlens\""), std::string::npos);
}

TEST(TraceFile, RefusesAStreamShorterThanItsHeaderOrLongerThanPromised) {
  const ScratchDirectory directory;
  write_trace(small_trace(), directory / "t");
  std::filesystem::resize_file(directory / "t/stream-0.bin", 63);
  EXPECT_NE(error_of(directory / "t").find("63 bytes, shorter than the header"), std::string::npos);
  write_trace(small_trace(), directory / "t");
  directory.write("t/stream-1.bin", content_of(directory / "t/stream-1.bin").replace(40, 1, "\x03"));
  EXPECT_NE(error_of(directory / "t").find("holds 3 records, the manifest says 2"), std::string::npos);
  std::filesystem::remove(directory / "t/stream-0.bin");
  EXPECT_NE(error_of(directory / "t").find("stream-0.bin: no such file"), std::string::npos);
}

TEST(TraceFile, ChecksMeshesAndPatterns) {
  const std::string axes = R"({"axis": "pp", "size": 2}, {"axis": "dp", "size": 4})";
  const std::string dense = R"({"view": "dense", "axes": [)" + axes + "]}";
  const std::string pattern = R"("mesh", "view": "dense", "spans": [{"axis": "dp", "shape": "all"}])";
  const std::vector<std::array<std::string, 3>> cases = {
      {"[" + dense + "]", pattern, "no error"},
      {"[" + dense + "]", R"("to_next", "view": "dense", "along": "pp")", "no error"},
      {R"({"pipeline": 2})", pattern, "\"mesh\" must be an array"},
      {R"([{"view": "dense", "axes": 3}])", pattern, "mesh[0] \"axes\" must be an array"},
      {R"([{"view": "dense", "axes": [{"axis": "DP", "size": 2}]}])", pattern, "\"axis\" is \"DP\""},
      {R"([{"view": "dense", "axes": [{"axis": "dp", "size": 0}]}])", pattern, "\"size\" must be"},
      {R"([{"view": "other", "axes": []}])", pattern, "mesh[0] must be the view \"dense\""},
      {R"([{"view": "dense", "axes": [{"axis": "dp", "size": 5000}, {"axis": "tp", "size": 5000}]}])",
       pattern, "the size of axis tp is 5000"},
      {"[" + dense + R"(, {"view": "expert", "axes": [{"axis": "ep", "size": 4}]}])", pattern,
       "the view expert has 4 ranks, the mesh has 8"},
      {"[" + dense + "]", R"("mesh", "view": "expert", "spans": [])", "\"view\" is \"expert\""},
      {"[" + dense + "]", R"("mesh", "view": "dense", "spans": [{"axis": "ep", "shape": "all"}])",
       "groups[0] there is no axis ep in the view dense of the mesh"},
      {"[" + dense + "]",
       R"("mesh", "view": "dense", "spans": [{"axis": "dp", "shape": "block", "step": 3}])",
       "a step of 3 does not divide the 4 positions along dp"},
      {"[" + dense + "]", R"("mesh", "view": "dense", "spans": [{"axis": "dp", "shape": "some"}])",
       "groups[0].spans[0] \"shape\" is \"some\""},
      {"[" + dense + "]", R"("to_next", "view": "dense", "along": "tp")", "there is no axis tp"},
  };
  for (const auto& [mesh, shape, said] : cases) {
    const ScratchDirectory directory;
    write_trace(small_trace(), directory / "t");
    replace_in(directory / "t/manifest.json", "\"accounting\"", "\"mesh\": " + mesh + ", \"accounting\"");
    replace_in(directory / "t/manifest.json", R"("axis": "dp", "ranks": [0,1])",
               R"("axis": "dp", "shape": )" + shape);
    EXPECT_NE(error_of(directory / "t").find(said), std::string::npos)
        << mesh << ' ' << shape << ": " << error_of(directory / "t");
  }
}

TEST(TraceFile, SaysWhichFieldOfTheManifestIsWrong) {
  const std::vector<std::array<std::string, 3>> cases = {
      {"commlens.trace/2", "commlens.trace/3", "\"schema\" is \"commlens.trace/3\", this version reads"},
      {"\"schema\"", "\"scheme\"", "has no \"schema\""},
      {"\"predicted\"", "\"guessed\"", "\"source\" is \"guessed\""},
      {"\"verified\": true", "\"verified\": 1", "\"verified\" must be true or false"},
      {"\"skipped\": {}", "\"skipped\": {\"x\": -1}", "skipped \"x\" must be an integer"},
      {"\"names\": [\n  \"\"]", "\"names\": [\"a\"]", "names[0] must be the empty string"},
      {"\"tags\": [\n  \"\"]", "\"tags\": [\"\", \"a\", \"a\"]", "tags[2] is in the table twice"},
      {"\"ranks\": [0,1]", "\"ranks\": [0,-1]", "groups[0] \"ranks\" must be integers from 0 to 16777215"},
      {"\"ranks\": [0,1]", "\"ranks\": [0,16777216]", "groups[0] \"ranks\" must be"},
      {"\"ranks\": [0,1]", "\"ranks\": 7", "groups[0] \"ranks\" must be an array"},
      {"\"ranks\": [0,1]", "\"shape\": \"mesh\"", "groups[0] is a pattern, but the manifest has no \"mesh\""},
      {"\"dp\"", "\"d-p\"", "groups[0] \"axis\" is \"d-p\""},
      {"\"dp\"", "\"\"", "groups[0] \"axis\" is \"\""},
      {"\"dp\"", "\"abcdefghijklmnopqrstuvw\"", "groups[0] \"axis\" is \"abcdefghijklmnopqrstuvw\""},
      {"\"all_reduce\"", "\"all_seduce\"", "ops[0] \"op\" is \"all_seduce\""},
      {"\"fp16\"", "\"fp17\"", "ops[0] \"dtype\" is \"fp17\""},
      {"\"group\": 0", "\"group\": 1", "ops[0] \"group\" must be an integer from 0 to 0"},
      {"\"input_elements\": 1000", "\"input_elements\": -1", "ops[0] \"input_elements\" must be"},
      {"\"input_elements\": 1000", "\"input_elements\": 1e3", "ops[0] \"input_elements\" must be"},
      {"\"input_elements\": 1000", "\"input_elements\": 99999999999999999999",
       "ops[0] \"input_elements\" must be"},
      {"\"group\": 0", "\"group\": 0, \"root\": 2", "ops[0] \"root\" must be an integer from 0 to 1"},
      {"\"group\": 0", "\"group\": 0, \"tag\": 1", "ops[0] \"tag\" must be"},
      {"\"group\": 0", "\"group\": 0, \"rule\": 9", "ops[0] \"rule\" must be"},
      {"\"stream-0.bin\"", "\"../stream-0.bin\"", "streams[0] \"file\" must be the name of a file"},
      {"\"events\": 2", "\"tables\": \"a/b\"", "streams[0] \"tables\" must be the name of a file"},
      {"\"last_rank\": 0", "\"last_rank\": 1", "streams hold rank 1 twice"},
      {"\"last_rank\": 0", "\"last_rank\": 99999999", "streams[0] \"last_rank\" must be"},
      {"\"last_rank\": 0", "\"last_rank\": 4, \"every\": 4", "streams[0] has no \"block\""},
      {"\"last_rank\": 0", "\"last_rank\": 4, \"every\": 4, \"block\": 4", "streams[0] \"block\" must be"},
      {"\"last_rank\": 0", "\"last_rank\": 4, \"every\": 4, \"block\": 2", "must be of different blocks"},
      {"\"last_rank\": 0", "\"last_rank\": 5, \"every\": 4, \"block\": 2", "streams must all be of blocks"},
      {"\"ops\": [", "\"ops\": [3, ", "ops[0] must be an object"},
  };
  for (const auto& [from, to, said] : cases) {
    const ScratchDirectory directory;
    write_trace(small_trace(), directory / "t");
    replace_in(directory / "t/manifest.json", from, to);
    EXPECT_NE(error_of(directory / "t").find(said), std::string::npos) << error_of(directory / "t");
  }
}

TEST(TraceFile, SurvivesAnyByteFlippedInTheManifest) {
  const ScratchDirectory directory;
  write_trace(test_support::RandomTrace(7).with_communicators().make(), directory / "t");
  const std::string text = content_of(directory / "t/manifest.json");
  for (std::size_t at = 0; at < text.size(); at += 41) {
    std::string damaged = text;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x15);
    directory.write("t/manifest.json", damaged);
    static_cast<void>(read_trace(directory / "t"));
    directory.write("t/manifest.json", text.substr(0, at));
    EXPECT_FALSE(read_trace(directory / "t")) << "cut at " << at;
  }
}

TEST(TraceFile, RefusesAManifestNestedAMillionDeep) {
  const ScratchDirectory directory;
  write_trace(small_trace(), directory / "t");
  directory.write("t/manifest.json", std::string(1'000'000, '['));
  EXPECT_FALSE(read_trace(directory / "t"));
  directory.write("t/manifest.json",
                  "{\"schema\":" + std::string(1'000'000, '[') + std::string(1'000'000, ']') + "}");
  EXPECT_FALSE(read_trace(directory / "t"));
}

TEST(TraceFile, TellsWhyADirectoryIsNoTrace) {
  const ScratchDirectory directory;
  EXPECT_NE(error_of(directory / "x").find("x: no such directory"), std::string::npos);
  EXPECT_NE(error_of(directory / ".").find("it has no manifest.json"), std::string::npos);
  EXPECT_NE(error_of(directory.write("f", "")).find("not a directory"), std::string::npos);
  EXPECT_FALSE(is_trace(directory / "f"));
  EXPECT_FALSE(is_trace(directory / "."));
  directory.write("manifest.json", R"({"name": "a web app", "icons": []})");
  EXPECT_FALSE(is_trace(directory / "."));
}

}  // namespace
}  // namespace commlens
