#include "commlens/trace/call_source.hpp"

#include <algorithm>
#include <fstream>
#include <tuple>

#include <gtest/gtest.h>

#include "commlens/trace/test_support.hpp"
#include "commlens/trace/trace_file.hpp"

namespace commlens {
namespace {

using std::chrono::nanoseconds;

/// Two ranks of 3,000 calls and compute intervals; those of rank 1 descend in pairs.
Trace long_trace() {
  Trace trace;
  const OpId op =
      trace.intern(CommOp{.kind = CommKind::barrier, .group = trace.groups.intern({Rank{0}, Rank{1}})});
  for (const Rank rank : {Rank{0}, Rank{1}}) {
    RankStream stream{{rank, rank}, {}, {}, {}};
    for (std::int64_t step = 0; step < 3000; ++step) {
      const nanoseconds start(100 + 100 * step);
      stream.events.push_back({op, static_cast<Iteration>(step / 10)});
      stream.times.push_back({start, start, start + nanoseconds(20)});
      const nanoseconds computing(150 + 100 * (rank.value == 1 ? step ^ 1 : step));
      stream.compute.push_back({computing, computing + nanoseconds(30), static_cast<Iteration>(step / 10)});
    }
    trace.streams.push_back(std::move(stream));
  }
  return trace;
}

/// The second page of each file of records becomes zeros, as a crashed node leaves it.
void lose_pages(const std::filesystem::path& directory) {
  constexpr std::size_t page = 4096;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    if (entry.path().extension() == ".bin") {
      std::fstream file(entry.path(), std::ios::binary | std::ios::in | std::ios::out);
      file.seekp(page);
      file.write(std::string(page, '\0').data(), page);
    }
  }
}

/// What is read side by side, some calls of each rank in turn.
std::vector<RankStream> read_in_turn(const CallSource& source) {
  std::vector<RankStream> streams;
  std::vector<StreamCursor> calls;
  for (std::size_t row = 0; row < source.tables.streams.size(); ++row) {
    streams.push_back({source.tables.streams[row].ranks, {}, {}, {}});
    calls.push_back({row});
    StreamCursor cursor{row};
    for (auto some = source.compute(cursor); !some.empty(); some = source.compute(cursor)) {
      streams[row].compute.insert(streams[row].compute.end(), some.begin(), some.end());
    }
  }
  for (bool has_more = true; has_more;) {
    has_more = false;
    for (std::size_t row = 0; row < streams.size(); ++row) {
      const CallSpan some = source.calls(calls[row], 100);
      streams[row].events.insert(streams[row].events.end(), some.events.begin(), some.events.end());
      streams[row].times.insert(streams[row].times.end(), some.times.begin(), some.times.end());
      has_more |= !some.events.empty();
    }
  }
  return streams;
}

bool is_same(const CommEvent& a, const CommEvent& b) {
  return std::tie(a.op, a.iteration, a.micro_batch) == std::tie(b.op, b.iteration, b.micro_batch);
}

void expect_equal(const std::vector<RankStream>& streams, const Trace& trace) {
  ASSERT_EQ(streams.size(), trace.streams.size());
  for (std::size_t row = 0; row < streams.size(); ++row) {
    EXPECT_TRUE(std::equal(streams[row].events.begin(), streams[row].events.end(),
                           trace.streams[row].events.begin(), trace.streams[row].events.end(), is_same))
        << "stream " << row;
    EXPECT_EQ(streams[row].times, trace.streams[row].times) << "stream " << row;
    EXPECT_EQ(streams[row].compute, trace.streams[row].compute) << "stream " << row;
  }
}

TEST(DirectoryCalls, AreThoseOfTheTrace) {
  const test_support::ScratchDirectory scratch;
  write_trace(long_trace(), scratch / "trace");
  const Result<DirectoryCalls> calls = DirectoryCalls::open(scratch / "trace");
  ASSERT_TRUE(calls) << calls.error().message;
  const Result<Trace> trace = read_trace(scratch / "trace");
  ASSERT_TRUE(trace);
  expect_equal(read_in_turn(calls->source()), *trace);
}

/// How many files of a directory are in the memory of this process.
std::int64_t mapped_files_of(const std::filesystem::path& directory) {
  std::ifstream maps("/proc/self/maps");
  std::int64_t count = 0;
  for (std::string line; std::getline(maps, line);) {
    count += line.find(directory.string()) != std::string::npos ? 1 : 0;
  }
  return count;
}

TEST(DirectoryCalls, KeepTheFilesOfFewStreamsMapped) {
  const test_support::ScratchDirectory scratch;
  write_trace(long_trace(), scratch / "trace");
  Result<DirectoryCalls> calls = DirectoryCalls::open(scratch / "trace", 1);
  ASSERT_TRUE(calls) << calls.error().message;
  const Result<Trace> trace = read_trace(scratch / "trace");
  ASSERT_TRUE(trace);
  EXPECT_EQ(mapped_files_of(scratch / "trace"), 2);  // calls and compute stretches of one rank
  expect_equal(read_in_turn(calls->source()), *trace);
  std::size_t visited = 0;
  calls->visit([&](const CallBlock& block) {
    visited += block.events.size();
    EXPECT_EQ(mapped_files_of(scratch / "trace"), 2);
  });
  EXPECT_EQ(visited, 6000U);
}

TEST(DirectoryCalls, OfAFileThatIsGoneMeanwhileSaySo) {
  const test_support::ScratchDirectory scratch;
  write_trace(long_trace(), scratch / "trace");
  Result<DirectoryCalls> calls = DirectoryCalls::open(scratch / "trace", 1);
  ASSERT_TRUE(calls) << calls.error().message;
  for (const auto& entry : std::filesystem::directory_iterator(scratch / "trace")) {
    std::filesystem::resize_file(entry.path(), 64);
  }
  const CallSource source = calls->source();
  StreamCursor first{0};
  try {
    source.calls(first, 100);
    FAIL() << "calls of a file that has become shorter";
  } catch (const SystemError& error) {
    EXPECT_NE(std::string(error.what()).find("became shorter"), std::string::npos) << error.what();
  }
}

TEST(DirectoryCalls, OfADamagedDirectoryAreThoseOfTheTrace) {
  const test_support::ScratchDirectory scratch;
  write_trace(long_trace(), scratch / "trace");
  lose_pages(scratch / "trace");
  const Result<Trace> trace = read_trace(scratch / "trace");
  ASSERT_TRUE(trace);
  // A page has 128 calls of 32 bytes, and 4096 bytes of intervals of 24 touch 171 or 172.
  EXPECT_EQ(trace->streams[0].events.size(), 3000U - 128U);
  Result<DirectoryCalls> calls = DirectoryCalls::open(scratch / "trace");
  ASSERT_TRUE(calls) << calls.error().message;
  expect_equal(read_in_turn(calls->source()), *trace);
  calls->visit([](const CallBlock&) {});
  EXPECT_EQ(calls->tables().provenance.skipped, trace->provenance.skipped);
  EXPECT_EQ(trace->provenance.skipped.count(std::string(k_skipped_compute)), 1U);
}

TEST(DirectoryCalls, OfNoTraceSayWhatIsWrong) {
  const test_support::ScratchDirectory scratch;
  const Result<DirectoryCalls> calls = DirectoryCalls::open(scratch / "nothing");
  ASSERT_FALSE(calls);
  EXPECT_NE(calls.error().message.find("no such directory"), std::string::npos) << calls.error().message;
}

}  // namespace
}  // namespace commlens
