#include "commlens/trace/compute_file.hpp"

#include <algorithm>
#include <cstring>
#include <string>

#include <gtest/gtest.h>

#include "commlens/trace/test_support.hpp"
#include "commlens/trace/trace_file.hpp"

namespace commlens {
namespace {

using std::chrono::nanoseconds;
using test_support::content_of;
using test_support::ScratchDirectory;
using Intervals = std::vector<ComputeInterval>;

ComputeInterval computed(std::int64_t started, std::int64_t finished, Iteration iteration) {
  return {nanoseconds(started), nanoseconds(finished), iteration};
}

/// Rank 0 computes from 100 to 150 and from 1000 to 1001; rank 1 makes the same calls, and nobody knows.
Trace computing_trace() {
  Trace trace;
  const OpId barrier =
      trace.intern(CommOp{.kind = CommKind::barrier, .group = trace.groups.intern({Rank{0}, Rank{1}})});
  const Times times{nanoseconds(150), nanoseconds(150), nanoseconds(160)};
  trace.streams.push_back({{Rank{0}, Rank{0}}, {{barrier, 0}}, {times}, {}});
  trace.streams.push_back({{Rank{1}, Rank{1}}, {{barrier, 0}}, {times}, {}});
  trace.streams[0].compute = {computed(100, 150, -1), computed(1000, 1001, 2)};
  return trace;
}

/// What reading `directory` says when the file of rank 0 holds `content`.
std::string error_with(const ScratchDirectory& directory, const std::string& content) {
  directory.write("t/stream-0.compute.bin", content);
  const Result<Trace> trace = read_trace(directory / "t");
  return trace ? "read" : trace.error().message;
}

/// `content` with eight bytes at `offset` replaced.
std::string with(std::string content, std::size_t offset, std::int64_t value) {
  std::memcpy(content.data() + offset, &value, sizeof value);
  return content;
}

TEST(ComputeFile, KeepsEveryStretch) {
  const ScratchDirectory directory;
  write_trace(computing_trace(), directory / "t");
  const Result<Trace> read = read_trace(directory / "t");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->streams[0].compute, computing_trace().streams[0].compute);
  EXPECT_EQ(read->streams[1].compute, Intervals{});
  EXPECT_FALSE(std::filesystem::exists(directory / "t/stream-1.compute.bin"));
  EXPECT_TRUE(read->provenance.skipped.empty());
}

TEST(ComputeFile, OfRandomTracesIsReadAsItWasWritten) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const ScratchDirectory directory;
    const Trace trace = test_support::RandomTrace(seed).with_communicators().make();
    write_trace(trace, directory / "t");
    const Result<Trace> read = read_trace(directory / "t");
    ASSERT_TRUE(read) << "seed=" << seed << ": " << read.error().message;
    for (std::size_t stream = 0; stream < trace.streams.size(); ++stream) {
      EXPECT_EQ(read->streams[stream].compute, trace.streams[stream].compute) << "seed=" << seed;
    }
  }
}

// The bytes of docs/formats/trace.md, written out by hand; the checks are those that a Python program for the
// formula there gives.
TEST(ComputeFile, HasTheDocumentedBytes) {
  const ScratchDirectory directory;
  write_trace(computing_trace(), directory / "t");
  const std::string expected(
      "commcomp"
      "\x02\x00\x00\x00\x40\x00\x00\x00\x18\x00\x00\x00\x00\x00\x00\x00"  // version, header, record, stream
      "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"  // first and last rank
      "\x02\x00\x00\x00\x00\x00\x00\x00"                                  // records in use
      "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"  // none dropped
      "\x64\x00\x00\x00\x00\x00\x00\x00\x32\x00\x00\x00\x00\x00\x00\x00"  // started 100, lasts 50
      "\xff\xff\xff\xff\xd5\x82\x5b\xa7"                                  // iteration -1, check
      "\xe8\x03\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00"  // started 1000, lasts 1
      "\x02\x00\x00\x00\xf9\x1a\xca\xa4",
      112);
  EXPECT_EQ(content_of(directory / "t/stream-0.compute.bin"), expected);
}

TEST(ComputeFile, ThatIsCutOffCountsWhatIsMissing) {
  const ScratchDirectory directory;
  write_trace(computing_trace(), directory / "t");
  const std::string content = content_of(directory / "t/stream-0.compute.bin");
  directory.write("t/stream-0.compute.bin", content.substr(0, content.size() - 1));
  const Result<Trace> read = read_trace(directory / "t");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->streams[0].compute, (Intervals{computed(100, 150, -1)}));
  EXPECT_EQ(read->provenance.skipped.at("compute time missing at the end of a file"), 1);
}

TEST(ComputeFile, CountsStretchesThatWereNotRecorded) {
  const ScratchDirectory directory;
  write_trace(computing_trace(), directory / "t");
  const std::string content = content_of(directory / "t/stream-0.compute.bin");
  directory.write("t/stream-0.compute.bin", with(with(content, 48, 3), 56, 4));
  const Result<Trace> read = read_trace(directory / "t");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->provenance.skipped.at("compute time not recorded, disk full"), 3);
  EXPECT_EQ(read->provenance.skipped.at("compute time not recorded, recorder late"), 4);
}

/// The file as version 1 wrote it.
std::string of_version_1(std::string content) {
  content[8] = 1;
  for (std::size_t record = 64; record + 24 <= content.size(); record += 24) {
    std::memset(content.data() + record + 20, 0, 4);
  }
  return content;
}

TEST(ComputeFile, OfVersionOneIsRead) {
  const ScratchDirectory directory;
  write_trace(computing_trace(), directory / "t");
  const std::string content = of_version_1(content_of(directory / "t/stream-0.compute.bin"));
  ASSERT_EQ(error_with(directory, content), "read");
  EXPECT_EQ(read_trace(directory / "t")->streams[0].compute, computing_trace().streams[0].compute);
  ASSERT_EQ(error_with(directory, content.substr(0, 88) + std::string(24, '\0')), "read");
  const Result<Trace> lost = read_trace(directory / "t");
  EXPECT_EQ(lost->streams[0].compute, (Intervals{computed(100, 150, -1)}));
  EXPECT_EQ(lost->provenance.skipped.at("compute time lost, zeros or impossible record"), 1);
}

TEST(ComputeFile, IsSortedByTheReader) {
  const ScratchDirectory directory;
  write_trace(computing_trace(), directory / "t");
  const std::string content = of_version_1(content_of(directory / "t/stream-0.compute.bin"));
  ASSERT_EQ(error_with(directory, with(content, 64, 5000)), "read");
  EXPECT_EQ(read_trace(directory / "t")->streams[0].compute,
            (Intervals{computed(1000, 1001, 2), computed(5000, 5050, -1)}));
}

// Any part of a record may be lost, and what is left of it is never computing.
TEST(ComputeFile, LeavesOutRecordsOfWhichPartsAreLost) {
  const ScratchDirectory directory;
  write_trace(computing_trace(), directory / "t");
  const std::string content = content_of(directory / "t/stream-0.compute.bin");
  for (std::size_t begin = 88; begin < 112; begin += 4) {
    for (std::size_t end = begin + 4; end <= 112; end += 4) {
      std::string damaged = content;
      std::fill(damaged.begin() + static_cast<std::ptrdiff_t>(begin),
                damaged.begin() + static_cast<std::ptrdiff_t>(end), '\0');
      if (damaged == content) {
        continue;  // it was zero
      }
      ASSERT_EQ(error_with(directory, damaged), "read");
      const Result<Trace> read = read_trace(directory / "t");
      EXPECT_EQ(read->streams[0].compute, (Intervals{computed(100, 150, -1)})) << begin << " to " << end;
      EXPECT_EQ(read->provenance.skipped.at("compute time lost, zeros or impossible record"), 1);
    }
  }
}

TEST(ComputeFile, LeavesOutImpossibleStretches) {
  const ScratchDirectory directory;
  write_trace(computing_trace(), directory / "t");
  const std::string content = of_version_1(content_of(directory / "t/stream-0.compute.bin"));
  for (const std::string& damaged :
       {with(content, 72, -1), with(content, 88, INT64_MIN), with(content, 80, 0xfffffffdU),
        with(content, 80, std::int64_t{7} << 32)}) {
    ASSERT_EQ(error_with(directory, damaged), "read");
    const Result<Trace> read = read_trace(directory / "t");
    EXPECT_EQ(read->streams[0].compute.size(), 1U);
    EXPECT_EQ(read->provenance.skipped.at("compute time lost, zeros or impossible record"), 1);
  }
}

TEST(ComputeFile, IsRefusedWhenAFieldIsWrong) {
  const ScratchDirectory directory;
  write_trace(computing_trace(), directory / "t");
  const std::string content = content_of(directory / "t/stream-0.compute.bin");
  const std::string file = (directory / "t/stream-0.compute.bin").string() + ": ";
  const std::int64_t version_3 = 3 | std::int64_t{64} << 32;
  EXPECT_EQ(error_with(directory, content.substr(0, 63)), file + "63 bytes, shorter than the header of 64");
  EXPECT_EQ(error_with(directory, content_of(directory / "t/stream-0.bin")),
            file + "no compute times of a commlens trace (its first bytes are not \"commcomp\")");
  EXPECT_EQ(error_with(directory, with(content, 8, version_3)),
            file + "version 3, this program reads versions 1 to 2");
  EXPECT_EQ(error_with(directory, with(content, 16, 32)),
            file + "header of 64 bytes and records of 32, expected 64 and 24");
  EXPECT_EQ(error_with(directory, with(content, 32, 1)),
            file + "holds ranks 0 to 1, the manifest says 0 to 0");
  EXPECT_EQ(error_with(directory, with(content, 48, -1)),
            file + "says that 18446744073709551615 and 0 stretches were dropped");
  std::filesystem::remove(directory / "t/stream-0.compute.bin");
  EXPECT_FALSE(read_trace(directory / "t"));
}

}  // namespace
}  // namespace commlens
