#include "commlens/comm/volume.hpp"

#include <gtest/gtest.h>

namespace commlens {
namespace {

CommOp op(CommKind kind, std::int64_t input, std::int64_t output) {
  return {.kind = kind, .dtype = DType::fp16, .input = {input}, .output = {output}};
}

/// The table of docs/volumes.md: 1000 fp16 elements = 2000 bytes.
TEST(MessageBytes, FollowTheTable) {
  EXPECT_EQ(message_bytes(op(CommKind::all_reduce, 1000, 1000)), Bytes{2000});
  EXPECT_EQ(message_bytes(op(CommKind::all_gather, 250, 1000)), Bytes{2000});
  EXPECT_EQ(message_bytes(op(CommKind::reduce_scatter, 1000, 250)), Bytes{2000});
  EXPECT_EQ(message_bytes(op(CommKind::all_to_all, 1000, 900)), Bytes{2000});
  EXPECT_EQ(message_bytes(op(CommKind::broadcast, 1000, 1000)), Bytes{2000});
  EXPECT_EQ(message_bytes(op(CommKind::send, 1000, 0)), Bytes{2000});
  EXPECT_EQ(message_bytes(op(CommKind::recv, 0, 1000)), Bytes{2000});
  EXPECT_EQ(message_bytes(op(CommKind::barrier, 0, 0)), Bytes{0});
}

TEST(WireBytes, FollowTheTable) {
  const Bytes message{2000};
  EXPECT_EQ(wire_bytes(CommKind::all_reduce, message, 4), Bytes{3000});
  EXPECT_EQ(wire_bytes(CommKind::all_gather, message, 4), Bytes{1500});
  EXPECT_EQ(wire_bytes(CommKind::reduce_scatter, message, 4), Bytes{1500});
  EXPECT_EQ(wire_bytes(CommKind::all_to_all, message, 4), Bytes{1500});
  EXPECT_EQ(wire_bytes(CommKind::broadcast, message, 4), Bytes{1500});
  EXPECT_EQ(wire_bytes(CommKind::send, message, 2), Bytes{2000});
  EXPECT_EQ(wire_bytes(CommKind::recv, message, 2), Bytes{0});
}

TEST(WireBytes, OneRankSendsNothing) {
  for (int kind = 0; kind <= static_cast<int>(CommKind::other); ++kind) {
    EXPECT_EQ(wire_bytes(static_cast<CommKind>(kind), Bytes{4096}, 1), Bytes{0}) << kind;
  }
}

TEST(WireBytes, DoNotOverflowOnLargeJobs) {
  EXPECT_EQ(wire_bytes(CommKind::all_gather, Bytes{4'000'000'000'000'000'000}, 100'000),
            Bytes{3'999'960'000'000'000'000});
}

/// nccl-tests doc/PERFORMANCE.md.
TEST(BusFactor, FollowsNcclTests) {
  EXPECT_DOUBLE_EQ(bus_factor(CommKind::all_reduce, 8), 1.75);
  EXPECT_DOUBLE_EQ(bus_factor(CommKind::all_gather, 8), 0.875);
  EXPECT_DOUBLE_EQ(bus_factor(CommKind::broadcast, 8), 1.0);
}

}  // namespace
}  // namespace commlens
