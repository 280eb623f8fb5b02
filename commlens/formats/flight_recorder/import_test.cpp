#include "commlens/formats/flight_recorder/import.hpp"

#include <cstdlib>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "commlens/formats/flight_recorder/entry.hpp"
#include "commlens/trace/test_support.hpp"

namespace commlens::formats::flight_recorder {
namespace {

using test_support::content_of;
using test_support::ScratchDirectory;
using test_support::spelled_calls;
using test_support::SpelledCall;

/// Synthetic dumps of rank 3 by the recorder's schema (version 2.4), no dump of a real job: one dictionary,
/// as JSON and by Python's pickle.dumps in every protocol. They are seeds of the fuzz target too.
std::filesystem::path sample(const std::string& name) {
  const char* const directory = std::getenv("COMMLENS_SOURCE_DIR");
  return std::filesystem::path(directory == nullptr ? "." : directory) / "tests/fuzz/corpus/flight_recorder" /
         ("synthetic_" + name + "_rank_3");
}

std::string spelled_entries(const SpelledCall& call) {
  std::string text = std::string(name_of(call.kind)) + " " + std::string(name_of(call.dtype)) + " " +
                     std::to_string(call.input) + "->" + std::to_string(call.output) + " [";
  for (const Rank rank : call.group) {
    text += " " + std::to_string(rank.value);
  }
  return text + " ] +" + std::to_string(call.started - 1'700'000'000'000'000'000) + " for " +
         std::to_string(call.duration) + (call.note.empty() ? "" : ": " + call.note);
}

std::vector<std::string> spelled_entries(const Result<Trace>& trace) {
  std::vector<std::string> calls;
  for (const SpelledCall& call : spelled_calls(trace.value(), Rank{3})) {
    calls.push_back(spelled_entries(call));
  }
  return calls;
}

// The last time in the dump is 905,000: what has not completed ran at least until then. The broadcast has no
// duration of its own, only the watchdog's 904,000 - 4,000. The send and the receive have that of the group
// they are in. An all_to_all of unknown element type has no bytes.
const std::vector<std::string> k_calls = {
    "all_reduce fp32 6->6 [ 0 1 2 3 ] +1000 for 500000",
    "all_gather bf16 4->8 [ 1 3 ] +2000 for 250000",
    "send fp16 5->0 [ 3 1 ] +3000 for 1000000",
    "recv fp16 0->7 [ 1 3 ] +3500 for 1000000",
    "broadcast int64 9->9 [ 0 1 2 3 ] +4000 for 900000",
    "other uint8 0->0 [ 0 1 2 3 ] +5000 for 125000",
    "all_reduce fp32 1030->1030 [ 0 1 2 3 ] +6000 for 899000: started, sequence 4",
    "barrier fp32 0->0 [ 0 1 2 3 ] +7000 for 898000: scheduled, sequence 5"};

const std::map<std::string, std::int64_t> k_skipped = {
    {"record of where coalesced calls end", 1},
    {"call whose size is not reported, kept as other", 1},
    {"time of a call that was only started and is kept", 1},
    {"time of a call that was only scheduled and is kept", 1}};

TEST(ReadFlightRecorder, ReadsEveryProtocolOfPickleAlike) {
  for (int protocol = 0; protocol <= 5; ++protocol) {
    const Result<Trace> trace = read(sample("protocol" + std::to_string(protocol)));
    ASSERT_TRUE(trace) << trace.error().message;
    EXPECT_EQ(spelled_entries(trace), k_calls) << "protocol " << protocol;
    EXPECT_EQ(trace->provenance.skipped, k_skipped) << "protocol " << protocol;
    EXPECT_EQ(trace->provenance.assumed.at("time of a call, taken from the watchdog, which is late"), 1);
    EXPECT_EQ(spelled_calls(*trace, Rank{3}).at(0).site, "train.py:57 step");
  }
}

TEST(ReadFlightRecorder, ReadsJsonWhereNoTimeIsZero) {
  const Result<Trace> trace = read(sample("json"));
  ASSERT_TRUE(trace) << trace.error().message;
  EXPECT_EQ(spelled_entries(trace), k_calls);
  EXPECT_EQ(trace->provenance.skipped, k_skipped);
}

std::string dump_of(const std::string& entries) {
  return R"({"version": "2.4", "pg_config": {"0": {"ranks": "[0, 3]"}}, "entries": [)" + entries + "]}";
}

TEST(ReadFlightRecorder, HasNoTimesWhereNoneWereMeasured) {
  const ScratchDirectory directory;
  const std::string entry =
      R"({"profiling_name": "nccl:all_reduce", "process_group": ["0", "d"], "input_sizes": [[2]], "output_sizes": [[2]], "input_dtypes": ["Float"], "output_dtypes": ["Float"], "time_created_ns": 5, "time_discovered_completed_ns": 9, "state": "completed"})";
  const Result<Trace> trace = read(directory.write("nccl_trace_rank_3", dump_of(entry)));
  ASSERT_TRUE(trace) << trace.error().message;
  ASSERT_EQ(trace->streams.size(), 1U);
  EXPECT_TRUE(trace->streams[0].times.empty());
  EXPECT_EQ(trace->provenance.skipped,
            (std::map<std::string, std::int64_t>{
                {"time of a call, which was not measured (TORCH_NCCL_ENABLE_TIMING)", 1}}));
}

TEST(ReadFlightRecorder, ASendTellsTheRankOfAFileWithoutNumber) {
  const ScratchDirectory directory;
  const std::string entry =
      R"({"profiling_name": "nccl:send 1->0", "process_group": ["0", "d"], "input_sizes": [[2]], "input_dtypes": ["Float"], "state": "completed"})";
  const Result<Trace> trace = read(directory.write("dump", dump_of(entry)));
  ASSERT_TRUE(trace) << trace.error().message;
  EXPECT_EQ(trace->streams.at(0).ranks.first, Rank{3});
}

TEST(ReadFlightRecorder, DeepJsonIsCountedAndNotFollowed) {
  const ScratchDirectory directory;
  const std::string deep = std::string(200'000, '[') + std::string(200'000, ']');
  const std::string entry =
      R"({"profiling_name": "nccl:all_reduce", "input_sizes": [[4]], "input_dtypes": ["Float"], "state": "completed", "frames": )";
  const std::string text = R"({"pg_config": {"0": {"ranks": )" + deep + R"(}}, "entries": [)" + entry + deep +
                           "}, " + entry + "[]}]}";
  const Result<Trace> trace = read(directory.write("d_rank_3", text));
  ASSERT_TRUE(trace) << trace.error().message;
  EXPECT_EQ(spelled_calls(*trace, Rank{3}).size(), 1U);
  EXPECT_EQ(trace->provenance.skipped.at("entry that cannot be read"), 1);
  EXPECT_EQ(trace->provenance.skipped.at("list of process groups that cannot be read"), 1);
}

TEST(ReadFlightRecorder, ReadsTheRanksOfAGroupAsAnArray) {
  TorchGroups groups;
  add_flight_groups(nlohmann::json::parse(R"({"0": {"ranks": [4, 2]}, "1": {"ranks": [1, [2]]}})"), groups);
  EXPECT_EQ(groups.find("0").global(1), 2);
  EXPECT_EQ(groups.find("1").size, 0);
}

TEST(ReadFlightRecorder, AMarkerEndsTheCallsOfItsGroupOnly) {
  const ScratchDirectory directory;
  const auto entry = [](const std::string& name, int group, const std::string& state, int sequence) {
    return R"({"profiling_name": "nccl:)" + name + R"(", "process_group": [")" + std::to_string(group) +
           R"(", "d"], "collective_seq_id": )" + std::to_string(sequence) +
           R"(, "input_sizes": [[2]], "input_dtypes": ["Float"], "state": ")" + state + "\"}";
  };
  const std::string text =
      dump_of(entry("all_reduce", 0, "scheduled", 1) + ", " + entry("all_reduce", 0, "scheduled", 2) + ", " +
              entry("all_reduce", 1, "scheduled", 2) + ", " + entry("all_reduce", 0, "scheduled", 2) + ", " +
              entry("coalesced", 0, "completed", 2));
  const Result<Trace> trace = read(directory.write("d_rank_3", text));
  ASSERT_TRUE(trace) << trace.error().message;
  std::vector<std::string> notes;
  for (const SpelledCall& call : spelled_calls(*trace, Rank{3})) {
    notes.push_back(call.note);
  }
  EXPECT_EQ(notes, (std::vector<std::string>{"scheduled, sequence 1", "", "scheduled, sequence 2", ""}));
}

TEST(ReadFlightRecorder, AnEntryListedEndlesslyReachesTheLimit) {
  // A dict of 100,000 keys listed 2,000 times: 2 * 10^8 keys in 600 KB.
  const ScratchDirectory directory;
  std::string text =
      "\x80\x02}(U\x0eprofiling_nameNU\x0ftime_created_nsNU\x07"
      "entries](}q\x01(";
  for (int key = 0; key < 100'000; ++key) {
    text += "J";
    for (int byte = 0; byte < 4; ++byte) {
      text += static_cast<char>((key >> (8 * byte)) & 0xFF);
    }
    text += "N";
  }
  text += "u";
  for (int time = 0; time < 2'000; ++time) {
    text += "h\x01";
  }
  text += "eu.";
  const Result<Trace> trace = read(directory.write("f", text));
  ASSERT_FALSE(trace);
  EXPECT_NE(trace.error().message.find("holds more than 134217728 bytes of data"), std::string::npos)
      << trace.error().message;
}

TEST(ReadFlightRecorder, SaysWhatIsWrongWithAFile) {
  const ScratchDirectory directory;
  const auto error = [&directory](std::string_view text) {
    const Result<Trace> trace = read(directory.write("f", text));
    return trace ? std::string("no error") : trace.error().message;
  };
  EXPECT_NE(error("").find("ends before STOP"), std::string::npos) << error("");
  EXPECT_NE(error(dump_of("")).find("no entries"), std::string::npos);
  EXPECT_NE(error("\x80\x02}.").find("no entries"), std::string::npos);
  EXPECT_NE(error(dump_of("3")).find("no entries"), std::string::npos);
  // os.system("true") as pickle.dumps writes an object that calls it.
  EXPECT_NE(error("\x80\x02"
                  "cposix\nsystem\nq\x01X\x04")
                .find("byte 2 of the pickle: opcode GLOBAL would make an object"),
            std::string::npos)
      << error(
             "\x80\x02"
             "cposix\nsystem\n");
}

TEST(ReadFlightRecorder, SurvivesEveryDamagedByte) {
  const ScratchDirectory directory;
  for (const char* const name : {"protocol0", "protocol4", "json"}) {
    const std::string good = content_of(sample(name));
    ASSERT_FALSE(good.empty());
    for (std::size_t at = 0; at < good.size(); at += 19) {
      std::string bytes = good;
      bytes[at] = static_cast<char>(bytes[at] ^ 0x81);
      static_cast<void>(read(directory.write("f", bytes)));
      static_cast<void>(read(directory.write("f", good.substr(0, at))));
    }
  }
}

TEST(FlightEntries, AddUpTheirTensorsAndRefuseAbsurdOnes) {
  const auto entry = [](const std::string& sizes, const std::string& types) {
    return flight_entry(nlohmann::json::parse(R"({"profiling_name": "nccl:all_gather", "input_sizes": )" +
                                              sizes + R"(, "input_dtypes": )" + types + "}"))
        .value();
  };
  EXPECT_EQ(entry("[[2, 3], []]", R"(["Half", "Half"])").input.bytes, 14);  // no dimensions: one element
  EXPECT_EQ(entry("[[2, 3], [5]]", R"(["Half", "Float"])").input.bytes, 32);
  EXPECT_EQ(entry("[[2, 3], [5]]", R"(["Half", "Float"])").input.dtype, DType::uint8);
  EXPECT_EQ(entry("[[0]]", R"(["Half"])").input.bytes, 0);
  EXPECT_EQ(entry("[[4611686018427387904, 4]]", R"(["Half"])").input.bytes, std::nullopt);
  EXPECT_EQ(entry("[[-1]]", R"(["Half"])").input.bytes, std::nullopt);
  EXPECT_EQ(entry("[[1]]", R"(["ComplexFloat"])").input.bytes, std::nullopt);
}

}  // namespace
}  // namespace commlens::formats::flight_recorder
