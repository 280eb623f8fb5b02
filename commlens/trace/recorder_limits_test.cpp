// What a recorder does with more different calls than its tables take.
#include <cstdint>
#include <filesystem>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "commlens/trace/recorder.hpp"
#include "commlens/trace/test_support.hpp"
#include "commlens/trace/trace_file.hpp"

namespace commlens {
namespace {

using test_support::content_of;
using test_support::ScratchDirectory;

constexpr std::int64_t k_rows = 1'048'576;  // 2^20

RecordedCall receive(GroupId group, std::int64_t elements) {
  return {.kind = CommKind::recv,
          .dtype = DType::uint8,
          .group = group,
          .input = Elements{0},
          .output = Elements{elements},
          .tag = {}};
}

/// 2^20 calls of new sizes, which is all that there is room for.
GroupId fill_tables(Recorder& recorder) {
  const GroupId group = recorder.group({Rank{1}, Rank{0}}, Axis::unknown);
  for (std::int64_t size = 0; size < k_rows; ++size) {
    const std::int64_t now = 1000 + size;
    const Recorder::Slot slot = recorder.begin(receive(group, size), now);
    // A recording that is faster than its file grows drops calls, which are no rows then.
    if (slot == Recorder::k_dropped) {
      std::this_thread::yield();
      --size;
      continue;
    }
    recorder.finish(slot, now);
  }
  return group;
}

// Of the calls after these: 5 of known sizes are recorded, 7 of new ones are not, nor is one whose size turns
// out to be new, nor one in a new group.
TEST(RecorderLimits, CallsThatFindNoRoomInTheTablesAreCountedByThatReason) {
  const ScratchDirectory directory;
  create_recording(directory / "t", {.producer = "test", .ranks = 1});
  std::int64_t late = 0;
  {
    Recorder recorder(directory / "t", Rank{0});
    const GroupId group = fill_tables(recorder);
    late = recorder.dropped();
    for (std::int64_t call = 0; call < 5; ++call) {
      recorder.finish(recorder.begin(receive(group, call)));
    }
    for (std::int64_t call = 0; call < 7; ++call) {
      recorder.finish(recorder.begin(receive(group, k_rows + call)));
    }
    recorder.finish(recorder.begin(receive(group, 0)), receive(group, k_rows), 5000);
    const GroupId other = recorder.group({Rank{2}, Rank{0}}, Axis::unknown);
    recorder.finish(recorder.begin(receive(other, 0)));
    EXPECT_EQ(recorder.dropped() - late, 8);
  }
  finish_recording(directory / "t");
  const Result<Trace> trace = read_trace(directory / "t");
  ASSERT_TRUE(trace) << trace.error().message;
  EXPECT_EQ(trace->streams.at(0).events.size(), static_cast<std::size_t>(k_rows + 5));
  EXPECT_EQ(trace->ops().size(), static_cast<std::size_t>(k_rows));
  EXPECT_EQ(trace->provenance.skipped.at("call not recorded, too many different calls"), 7 + 1 + 1);
  EXPECT_EQ(trace->provenance.recorder.value_or(RecorderCost{}).dropped - late, 8);

  // Of a rank that is killed nobody has written how many calls there were.
  const std::filesystem::path tables = directory / "t/rank-0.jsonl";
  const std::string text = content_of(tables);
  std::filesystem::resize_file(tables, text.rfind("{\"closed\""));
  const Result<Trace> killed = read_trace(directory / "t");
  ASSERT_TRUE(killed) << killed.error().message;
  EXPECT_EQ(killed->provenance.skipped.at("rank killed with full tables, whose other calls nobody counted"),
            1);
}

}  // namespace
}  // namespace commlens
