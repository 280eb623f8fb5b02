// Communicators of the same ranks in the tables that ranks write as they run.
#include <gtest/gtest.h>

#include "commlens/trace/recorder.hpp"
#include "commlens/trace/test_support.hpp"
#include "commlens/trace/trace_file.hpp"

namespace commlens {
namespace {

using test_support::content_of;
using test_support::ScratchDirectory;

constexpr CommunicatorId k_one{0x11};
constexpr CommunicatorId k_other{0x22};

RecordedCall barrier(GroupId group) { return {.kind = CommKind::barrier, .group = group, .tag = {}}; }

CommunicatorId communicator_of(const Trace& trace, std::size_t stream, std::size_t call) {
  return trace.groups.communicator(trace.op(trace.streams.at(stream).events.at(call).op).group);
}

// Each rank meets its communicators in an order of its own, as threads do.
TEST(RankCommunicators, OfSeveralRanksAreTheSameByTheirNumber) {
  const ScratchDirectory directory;
  create_recording(directory / "t", {.producer = "test", .description = {}, .framework = {}, .ranks = 2});
  const std::vector<Rank> both{Rank{0}, Rank{1}};
  for (std::int64_t rank = 0; rank < 2; ++rank) {
    Recorder recorder(directory / "t", Rank{rank});
    for (const CommunicatorId communicator : {rank == 0 ? k_one : k_other, rank == 0 ? k_other : k_one}) {
      const GroupId group = recorder.group(both, Axis::world, communicator);
      EXPECT_EQ(recorder.group(both, Axis::world, communicator), group);
      recorder.finish(recorder.begin(barrier(group)));
    }
  }
  const Result<Trace> trace = read_trace(directory / "t");
  ASSERT_TRUE(trace.has_value()) << trace.error().message;
  EXPECT_EQ(trace->groups.count(), 2U);
  EXPECT_EQ(communicator_of(*trace, 0, 0), k_one);
  EXPECT_EQ(communicator_of(*trace, 0, 1), k_other);
  EXPECT_EQ(communicator_of(*trace, 1, 0), k_other);
  EXPECT_EQ(communicator_of(*trace, 1, 1), k_one);
  EXPECT_EQ(trace->op(trace->streams[0].events[0].op).group, trace->op(trace->streams[1].events[1].op).group);
  EXPECT_EQ(trace->groups.members(GroupId{1}, Rank{0}), both);
}

TEST(RankCommunicators, WriteTheListOfTheirRanksOnce) {
  const ScratchDirectory directory;
  create_recording(directory / "t", {.producer = "test", .description = {}, .framework = {}, .ranks = 1});
  {
    Recorder recorder(directory / "t", Rank{0});
    for (const CommunicatorId communicator : {k_one, k_other}) {
      recorder.finish(recorder.begin(barrier(recorder.group({Rank{0}, Rank{1}}, Axis::world, communicator))));
    }
  }
  const std::string tables = content_of(directory / "t/rank-0.jsonl");
  EXPECT_NE(
      tables.find(
          R"({"group": {"axis": "world", "ranks": [0,1], "communicator": "0x0000000000000011"}, "row": 0})"),
      std::string::npos)
      << tables;
  EXPECT_NE(
      tables.find(
          R"({"group": {"axis": "world", "ranks_of": 0, "communicator": "0x0000000000000022"}, "row": 1})"),
      std::string::npos)
      << tables;
}

TEST(RankCommunicators, ThatAreNoneAreRefused) {
  for (const auto& [row, message] : {std::pair{R"({"axis": "dp", "ranks": [0], "communicator": "7"})",
                                               R"(line 2 "communicator" is "7", which is unknown)"},
                                     std::pair{R"({"axis": "dp", "ranks": [0], "communicator": 7})",
                                               R"(line 2 "communicator" must be a string)"},
                                     std::pair{R"({"axis": "dp", "ranks_of": 0})",
                                               R"(line 2 "ranks_of" must be an earlier row with "ranks")"}}) {
    const ScratchDirectory directory;
    create_recording(directory / "t", {.producer = "test", .description = {}, .framework = {}, .ranks = 1});
    {
      Recorder recorder(directory / "t", Rank{0});
    }
    std::string tables = content_of(directory / "t/rank-0.jsonl");
    tables.resize(tables.find('\n') + 1);
    directory.write("t/rank-0.jsonl", tables + R"({"group": )" + row + "}\n");
    const Result<Trace> trace = read_trace(directory / "t");
    ASSERT_FALSE(trace.has_value()) << row;
    EXPECT_NE(trace.error().message.find(message), std::string::npos) << trace.error().message;
  }
}

}  // namespace
}  // namespace commlens
