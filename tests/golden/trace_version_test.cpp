// A trace that a version before named axes wrote (commlens.trace/1): a prediction by the rules of Megatron of
// 8 ranks, 2 stages of 2 data and 2 tensor ranks, with experts on 2 data ranks.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "commlens/base/file.hpp"
#include "commlens/trace/test_support.hpp"
#include "commlens/trace/trace_file.hpp"
#include "golden_cases.hpp"

namespace commlens {
namespace {

std::vector<std::int64_t> members_of(const Trace& trace, std::string_view axis, std::int64_t size,
                                     Rank self) {
  for (const CommOp& op : trace.ops()) {
    if (!is_point_to_point(op.kind) && name_of(trace.groups.axis(op.group)) == axis &&
        trace.groups.size(op.group) == size) {
      std::vector<std::int64_t> members;
      for (const Rank member : trace.groups.members(op.group, self)) {
        members.push_back(member.value);
      }
      return members;
    }
  }
  return {};
}

std::vector<OpId> ops_of(const RankStream& stream) {
  std::vector<OpId> ops;
  for (const CommEvent& event : stream.events) {
    ops.push_back(event.op);
  }
  return ops;
}

using Ranks = std::vector<std::int64_t>;

TEST(TraceVersion, OneIsStillReadWithTheSameRanks) {
  const Result<Trace> trace = read_trace(golden_directory() / "trace_version_1");
  ASSERT_TRUE(trace) << trace.error().message;
  EXPECT_EQ(trace->groups.mesh(), (Mesh{{Axis::pp, 2}, {Axis::dp, 2}, {Axis::tp, 2}}));
  ASSERT_EQ(trace->streams.size(), 2U);
  EXPECT_EQ(trace->streams[1].ranks, (RankRange{Rank{4}, Rank{7}}));
  EXPECT_EQ(trace->streams[0].events.size(), 31U);  // (1056 bytes - a header of 64) / 32
  EXPECT_EQ(trace->streams[1].events.size(), 35U);
  // rank = (stage * 2 + data) * 2 + tensor
  EXPECT_EQ(members_of(*trace, "tp", 2, Rank{5}), (Ranks{4, 5}));
  EXPECT_EQ(members_of(*trace, "dp", 2, Rank{5}), (Ranks{5, 7}));
  EXPECT_EQ(members_of(*trace, "world", 8, Rank{5}), (Ranks{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(members_of(*trace, "ep", 4, Rank{5}), (Ranks{4, 5, 6, 7}));
  bool has_pair = false;
  for (const CommOp& op : trace->ops()) {
    if (op.kind == CommKind::send && op.phase == Phase::forward) {
      EXPECT_EQ(trace->groups.members(op.group, Rank{1}), (std::vector{Rank{1}, Rank{5}}));
      EXPECT_EQ(trace->groups.axis(op.group), Axis::pp);
      has_pair = true;
    }
  }
  EXPECT_TRUE(has_pair);
}

TEST(TraceVersion, OneIsWrittenAgainAsTwoWithTheSameCalls) {
  const Result<Trace> before = read_trace(golden_directory() / "trace_version_1");
  ASSERT_TRUE(before) << before.error().message;
  const test_support::ScratchDirectory directory;
  write_trace(*before, directory / "t");
  const std::string manifest = read_text_file(directory / "t" / "manifest.json", 1 << 20).value();
  EXPECT_EQ(manifest.find(R"("schema": "commlens.trace/2")"), 2U);
  const Result<Trace> after = read_trace(directory / "t");
  ASSERT_TRUE(after) << after.error().message;
  EXPECT_EQ(after->groups.mesh(), before->groups.mesh());
  EXPECT_EQ(after->ops(), before->ops());
  for (std::size_t row = 0; row < before->streams.size(); ++row) {
    EXPECT_EQ(ops_of(after->streams[row]), ops_of(before->streams[row])) << row;
  }
  for (const CommOp& op : before->ops()) {
    for (Rank rank{0}; rank.value < 8; ++rank.value) {
      EXPECT_EQ(after->groups.members(op.group, rank), before->groups.members(op.group, rank)) << rank.value;
    }
  }
}

}  // namespace
}  // namespace commlens
