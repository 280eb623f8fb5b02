#include "commlens/trace/call_blocks.hpp"

#include <fstream>

#include <gtest/gtest.h>

#include "commlens/trace/recorder.hpp"
#include "commlens/trace/stream_layout.hpp"
#include "commlens/trace/test_support.hpp"
#include "commlens/trace/trace_file.hpp"

namespace commlens {
namespace {

using commlens::test_support::RandomTrace;
using commlens::test_support::ScratchDirectory;
using std::chrono::nanoseconds;

/// Puts the calls that a visit gave back where they belong.
void collect(const CallBlock& block, std::vector<RankStream>& streams) {
  streams.resize(block.tables.streams.size());
  RankStream& stream = streams[block.stream];
  stream.ranks = block.tables.streams[block.stream].ranks;
  stream.events.insert(stream.events.end(), block.events.begin(), block.events.end());
  stream.times.insert(stream.times.end(), block.times.begin(), block.times.end());
}

Trace visited(const std::filesystem::path& directory) {
  std::vector<RankStream> streams;
  Result<Trace> trace = visit_calls(directory, [&](const CallBlock& block) { collect(block, streams); });
  EXPECT_TRUE(trace) << trace.error().message;
  trace->streams = std::move(streams);
  return std::move(*trace);
}

void expect_same_calls(const Trace& a, const Trace& b) {
  ASSERT_EQ(a.streams.size(), b.streams.size());
  EXPECT_EQ(a.provenance.skipped, b.provenance.skipped);
  for (std::size_t row = 0; row < a.streams.size(); ++row) {
    EXPECT_EQ(a.streams[row].ranks, b.streams[row].ranks);
    EXPECT_EQ(a.streams[row].times, b.streams[row].times);
    const Rank rank = a.streams[row].ranks.first;
    EXPECT_EQ(test_support::spelled_calls(a, rank), test_support::spelled_calls(b, rank));
  }
}

/// One rank's calls of one op, one after another of 5 ns.
Trace trace_of(std::size_t calls) {
  Trace trace;
  CommOp op;
  op.group = trace.groups.intern(std::vector<Rank>{{0}, {1}});
  const OpId id = trace.intern(op);
  trace.streams.push_back({{Rank{0}, Rank{0}}, {}, {}, {}});
  for (std::size_t call = 0; call < calls; ++call) {
    const nanoseconds start(static_cast<std::int64_t>(call) * 10);
    trace.streams[0].events.push_back({id, 0, static_cast<std::int32_t>(call)});
    trace.streams[0].times.push_back({start, start, start + nanoseconds(5)});
  }
  return trace;
}

/// Changes one record of a stream's file.
void change_record(const std::filesystem::path& file, std::size_t row, const auto& change) {
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  const auto place = static_cast<std::streamoff>(sizeof(StreamHeader) + row * sizeof(StreamRecord));
  StreamRecord record;
  stream.seekg(place);
  stream.read(reinterpret_cast<char*>(&record), sizeof record);
  change(record);
  stream.seekp(place);
  stream.write(reinterpret_cast<const char*>(&record), sizeof record);
}

TEST(CallBlocks, OfADirectoryAreTheCallsThatReadingGives) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    const ScratchDirectory scratch;
    write_trace(RandomTrace(seed).with_communicators().make(), scratch / "trace");
    SCOPED_TRACE(seed);
    expect_same_calls(visited(scratch / "trace"), read_trace(scratch / "trace").value());
  }
}

TEST(CallBlocks, OfATraceInMemoryAreItsStreams) {
  const Trace trace = RandomTrace(7).with_communicators().make();
  std::vector<RankStream> streams;
  visit_calls(trace, [&](const CallBlock& block) { collect(block, streams); });
  ASSERT_EQ(streams.size(), trace.streams.size());
  for (std::size_t row = 0; row < streams.size(); ++row) {
    EXPECT_EQ(streams[row].events.size(), trace.streams[row].events.size());
    EXPECT_EQ(streams[row].times, trace.streams[row].times);
  }
}

/// 300,000 records of 32 bytes are more than one window of the file.
TEST(CallBlocks, OfALongStreamAreSmallAndComeInOrder) {
  const ScratchDirectory scratch;
  write_trace(trace_of(300'000), scratch / "trace");
  std::int32_t next = 0;
  std::size_t largest = 0;
  const auto sink = [&](const CallBlock& block) {
    largest = std::max(largest, block.events.size());
    for (const CommEvent& event : block.events) {
      ASSERT_EQ(event.micro_batch, next++);
    }
  };
  ASSERT_TRUE(visit_calls(scratch / "trace", sink));
  EXPECT_EQ(next, 300'000);
  EXPECT_LE(largest, 1024U);
}

TEST(CallBlocks, HaveNoTimesWhenTheLastCallOfTheStreamHasNone) {
  const ScratchDirectory scratch;
  write_trace(trace_of(5000), scratch / "trace");
  change_record(scratch / "trace/stream-0.bin", 4999,
                [](StreamRecord& record) { record.started_ns = k_no_time; });
  const auto sink = [](const CallBlock& block) { EXPECT_TRUE(block.times.empty()); };
  const Result<Trace> tables = visit_calls(scratch / "trace", sink);
  ASSERT_TRUE(tables);
  const std::map<std::string, std::int64_t> skipped{{"time where other calls of the rank have none", 4999}};
  EXPECT_EQ(tables->provenance.skipped, skipped);
}

TEST(CallBlocks, LeaveOutUnfinishedCallsAndCountThem) {
  const ScratchDirectory scratch;
  write_trace(trace_of(3000), scratch / "trace");
  for (const std::size_t row : {0U, 1500U, 2999U}) {
    change_record(scratch / "trace/stream-0.bin", row,
                  [](StreamRecord& record) { record.duration_ns = k_unfinished; });
  }
  const Trace trace = visited(scratch / "trace");
  EXPECT_EQ(trace.streams[0].events.size(), 2997U);
  EXPECT_EQ(trace.streams[0].times.size(), 2997U);
  EXPECT_EQ(trace.provenance.skipped.at(std::string(k_skipped_unfinished)), 3);
}

TEST(CallBlocks, LeaveOutRecordsThatAreNoCallsAndCountThem) {
  const ScratchDirectory scratch;
  write_trace(trace_of(3000), scratch / "trace");
  const std::filesystem::path file = scratch / "trace/stream-0.bin";
  change_record(file, 1, [](StreamRecord& record) { record.op_number = 2; });  // the tables have one row
  change_record(file, 2,
                [](StreamRecord& record) { record = {.op_number = 0, .duration_ns = 0, .micro_batch = 0}; });
  change_record(file, 3, [](StreamRecord& record) { record.op_number = 0; });
  change_record(file, 4, [](StreamRecord& record) { record.iteration = -2; });
  change_record(file, 2500, [](StreamRecord& record) { record.micro_batch = -2; });
  const Trace trace = visited(scratch / "trace");
  EXPECT_EQ(trace.streams[0].events.size(), 2995U);
  EXPECT_EQ(trace.streams[0].times.size(), 2995U);
  EXPECT_EQ(trace.streams[0].events[1].micro_batch, 5);
  EXPECT_EQ(trace.provenance.skipped,
            (std::map<std::string, std::int64_t>{{"call lost, not described in the tables", 1},
                                                 {"call lost, record of zeros", 2},
                                                 {"call lost, impossible record", 2}}));
}

TEST(CallBlocks, OfARecordingHaveTheTablesOfTheirRank) {
  const ScratchDirectory scratch;
  create_recording(scratch / "trace", {.producer = "test", .ranks = 3});
  for (const Rank rank : {Rank{0}, Rank{1}}) {  // rank 2 never starts
    Recorder recorder(scratch / "trace", rank);
    const GroupId group = recorder.group({Rank{0}, Rank{1}}, Axis::dp);
    for (std::int64_t elements = 1; elements <= 3 + rank.value; ++elements) {
      recorder.finish(recorder.begin({.kind = CommKind::all_reduce,
                                      .group = group,
                                      .input = Elements{elements},
                                      .output = Elements{elements},
                                      .tag = "layer"}));
    }
  }
  const Trace trace = visited(scratch / "trace");
  EXPECT_EQ(trace.streams[1].events.size(), 4U);
  expect_same_calls(trace, read_trace(scratch / "trace").value());
  EXPECT_EQ(trace.provenance.skipped.at("rank without a recording"), 1);
}

}  // namespace
}  // namespace commlens
