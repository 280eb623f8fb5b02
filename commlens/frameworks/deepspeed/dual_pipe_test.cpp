#include "commlens/frameworks/deepspeed/dual_pipe.hpp"

#include <tuple>

#include <gtest/gtest.h>

namespace commlens::deepspeed {
namespace {

using Kind = DualPipeStep::Kind;
using Message = std::tuple<bool, DualPipeWay, std::int64_t>;  // is a gradient, way, micro-batch

/// What a rank sends to (or receives from) the next one, or the previous one.
std::vector<Message> messages(const std::vector<DualPipeStep>& steps, bool are_sends, bool is_next) {
  std::vector<Message> result;
  for (const DualPipeStep& step : steps) {
    const bool is_gradient = step.kind == Kind::send_gradient || step.kind == Kind::recv_gradient;
    const bool is_send = step.kind == Kind::send_activation || step.kind == Kind::send_gradient;
    const bool is_recv = step.kind == Kind::recv_activation || step.kind == Kind::recv_gradient;
    const bool goes_to_next = (step.way == DualPipeWay::out) != is_gradient;
    if ((are_sends ? is_send && goes_to_next == is_next : is_recv && goes_to_next != is_next)) {
      result.emplace_back(is_gradient, step.way, step.micro_batch);
    }
  }
  return result;
}

TEST(DualPipeSchedule, NeighboursSendAndReceiveInTheSameOrder) {
  for (std::int64_t ranks = 2; ranks <= 5; ++ranks) {
    for (std::int64_t micro_batches = 2 * ranks; micro_batches < 2 * ranks + 4; ++micro_batches) {
      for (std::int64_t rank = 0; rank + 1 < ranks; ++rank) {
        SCOPED_TRACE(testing::Message()
                     << ranks << " ranks, " << micro_batches << " micro-batches, rank " << rank);
        const auto here = dual_pipe_schedule(rank, ranks, micro_batches);
        const auto next = dual_pipe_schedule(rank + 1, ranks, micro_batches);
        EXPECT_EQ(messages(here, true, true).size(), static_cast<std::size_t>(2 * micro_batches));
        EXPECT_EQ(messages(here, true, true), messages(next, false, false));
        EXPECT_EQ(messages(next, true, false), messages(here, false, true));
      }
    }
  }
}

TEST(DualPipeSchedule, EveryStageRunsEachMicroBatchForwardThenBackward) {
  for (std::int64_t rank = 0; rank < 3; ++rank) {
    for (const DualPipeWay way : {DualPipeWay::out, DualPipeWay::back}) {
      SCOPED_TRACE(testing::Message() << "rank " << rank);
      std::int64_t forward = 0;
      std::int64_t backward = 0;
      for (const DualPipeStep& step : dual_pipe_schedule(rank, 3, 7)) {
        if (step.way == way && step.kind == Kind::forward) {
          EXPECT_EQ(step.micro_batch, forward++);
        }
        if (step.way == way && step.kind == Kind::backward) {
          EXPECT_EQ(step.micro_batch, backward++);
          EXPECT_LE(backward, forward);
        }
      }
      EXPECT_EQ(forward, 7);
      EXPECT_EQ(backward, 7);
    }
  }
}

/// arXiv 2412.19437, Table 2: activations of pp + 1 micro-batches, of stages half as large twice as many.
TEST(DualPipeSchedule, KeepsTheActivationsOfHalfAPassMoreThanItHasRanks) {
  Job job;
  job.layout.pp = 4;
  job.train.micro_batches = 12;
  EXPECT_EQ(held_by_dual_pipe(job, 0).in_flight, 4.5);
}

}  // namespace
}  // namespace commlens::deepspeed
