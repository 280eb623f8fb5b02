// The lists of actions are those that torch.distributed.pipelining makes (pipeline_order_with_comms of a
// schedule, printed with 2.15.0 and 2.9.1), without its WAIT_SEND steps.
#include "commlens/frameworks/torch/schedules.hpp"

#include <map>
#include <string>
#include <tuple>

#include <gtest/gtest.h>

namespace commlens::pytorch {
namespace {

using Act = PipelineAction::Kind;

std::string text_of(const PipelineAction& action) {
  static const std::map<Act, std::string> names = {{Act::forward, "F"},
                                                   {Act::backward, "B"},
                                                   {Act::backward_input, "I"},
                                                   {Act::backward_weight, "W"},
                                                   {Act::send_forward, "SEND_F"},
                                                   {Act::receive_forward, "RECV_F"},
                                                   {Act::send_backward, "SEND_B"},
                                                   {Act::receive_backward, "RECV_B"},
                                                   {Act::unshard, "UNSHARD"},
                                                   {Act::reshard, "RESHARD"},
                                                   {Act::reduce, "REDUCE_GRAD"}};
  if (action.kind == Act::idle) {
    return "WAIT";
  }
  const std::string number = action.micro_batch < 0 ? "" : std::to_string(action.micro_batch);
  return std::to_string(action.stage) + names.at(action.kind) + number + (action.is_paired ? "+" : "");
}

std::string text_of(const RankActions& actions) {
  std::string text;
  for (const PipelineAction& action : actions) {
    text += (text.empty() ? "" : " ") + text_of(action);
  }
  return text;
}

TEST(Schedules, ZeroBubbleVIsThatOfTheLibrary) {
  const std::vector<RankActions> all = runtime_actions({PipelineSchedule::zbv_zero_bubble, 2, 2, 4}, {});
  EXPECT_EQ(text_of(all[0]),
            "0UNSHARD 3UNSHARD 0F0 0SEND_F0 0F1 0SEND_F1 3RECV_F0 0F2 0SEND_F2 3F0 3RECV_F1 3I0 3SEND_B0 3W0 "
            "3F1 3I1 "
            "3SEND_B1 0RECV_B0 3W1 0F3 0SEND_F3 3RECV_F2 0I0 0W0 3F2 3I2 3SEND_B2 0RECV_B1 3W2 0I1 3RECV_F3 "
            "0W1 3F3 "
            "3I3 3SEND_B3 0RECV_B2 3W3 3REDUCE_GRAD 0RECV_B3 WAIT 3RESHARD 0I2 0W2 0I3 0W3 0REDUCE_GRAD WAIT "
            "0RESHARD");
}

TEST(Schedules, Interleaved1F1BIsThatOfTheLibrary) {
  const std::vector<RankActions> all = runtime_actions({PipelineSchedule::interleaved_1f1b, 2, 2, 2}, {});
  EXPECT_EQ(text_of(all[1]),
            "1UNSHARD 3UNSHARD 1RECV_F0 1F0 1SEND_F0 1RECV_F1 1F1 1SEND_F1 3RECV_F0 3F0 3RECV_F1 3B0 "
            "3SEND_B0 1RECV_B0 "
            "3F1 3B1 3SEND_B1 1RECV_B1 3REDUCE_GRAD WAIT 3RESHARD 1B0 1SEND_B0 1B1 1SEND_B1 1REDUCE_GRAD "
            "WAIT 1RESHARD");
}

TEST(Schedules, InterleavedZeroBubbleIsThatOfTheLibrary) {
  const std::vector<RankActions> all =
      runtime_actions({PipelineSchedule::interleaved_zero_bubble, 2, 2, 2}, {});
  EXPECT_EQ(
      text_of(all[0]),
      "0UNSHARD 2UNSHARD 0F0 0SEND_F0 2RECV_F0 0F1 0SEND_F1 2RECV_F1 2F0 2SEND_F0 2F1 2SEND_F1 2RECV_B0 2I0 "
      "2SEND_B0 2W0 2RECV_B1 2I1 2SEND_B1 2W1 0RECV_B0 2REDUCE_GRAD WAIT 2RESHARD 0I0 0W0 0RECV_B1 0I1 0W1 "
      "0REDUCE_GRAD WAIT 0RESHARD");
}

TEST(Schedules, DualPipeVPairsPasses) {
  const std::vector<RankActions> all = runtime_actions({PipelineSchedule::dual_pipe_v, 2, 2, 4}, {});
  EXPECT_EQ(
      text_of(all[0]),
      "0UNSHARD 3UNSHARD 0F0 0SEND_F0 0F1 0SEND_F1 3RECV_F0 0F2 0SEND_F2 3F0 3RECV_F1 3I0 3SEND_B0 3W0 3F1 "
      "3RECV_F2 0RECV_B0 0F3+ 3B1 0SEND_F3 3SEND_B1 3F2+ 0B0 3RECV_F3 0RECV_B1 3B2 3SEND_B2 3F3+ 0B1 "
      "0RECV_B2 "
      "3B3 3SEND_B3 3REDUCE_GRAD 0RECV_B3 WAIT 3RESHARD 0I2 0W2 0I3 0W3 0REDUCE_GRAD WAIT 0RESHARD");
}

TEST(Schedules, DualPipeVOf29RunsEachPassOnItsOwn) {
  const RuntimeSteps steps{.pairs_passes = false, .has_reductions = false, .has_waits = false};
  const std::vector<RankActions> all = runtime_actions({PipelineSchedule::dual_pipe_v, 2, 2, 5}, steps);
  EXPECT_EQ(
      text_of(all[0]),
      "0UNSHARD 3UNSHARD 0F0 0SEND_F0 0F1 0SEND_F1 3RECV_F0 0F2 0SEND_F2 3F0 3RECV_F1 3I0 3SEND_B0 3W0 3F1 "
      "3RECV_F2 0F3 0SEND_F3 0RECV_B0 3B1 3SEND_B1 3F2 0B0 3RECV_F3 0F4 0SEND_F4 0RECV_B1 3B2 3SEND_B2 3F3 "
      "0B1 "
      "3RECV_F4 3B3 3SEND_B3 0RECV_B2 3F4 0B2 0RECV_B3 3B4 3SEND_B4 3RESHARD 0RECV_B4 0I3 0W3 0I4 0W4 "
      "0RESHARD");
}

/// Messages between stages that are sent and not received, or the other way round.
std::int64_t unmatched(const std::vector<RankActions>& all) {
  std::map<std::tuple<bool, std::int32_t, std::int32_t>, std::int64_t> balance;  // forward, sender's stage
  for (const RankActions& actions : all) {
    for (const PipelineAction& each : actions) {
      switch (each.kind) {
        case Act::send_forward:
          ++balance[{true, each.stage, each.micro_batch}];
          break;
        case Act::receive_forward:
          --balance[{true, each.stage - 1, each.micro_batch}];
          break;
        case Act::send_backward:
          ++balance[{false, each.stage, each.micro_batch}];
          break;
        case Act::receive_backward:
          --balance[{false, each.stage + 1, each.micro_batch}];
          break;
        default:
          break;
      }
    }
  }
  std::int64_t count = 0;
  for (const auto& [message, difference] : balance) {
    count += difference == 0 ? 0 : 1;
  }
  return count;
}

TEST(Schedules, EverySendHasItsReceive) {
  using Schedule = PipelineSchedule;
  for (const Schedule schedule :
       {Schedule::interleaved_1f1b, Schedule::looped_bfs, Schedule::interleaved_zero_bubble,
        Schedule::zbv_zero_bubble, Schedule::dual_pipe_v}) {
    for (std::int64_t ranks = 2; ranks <= 8; ++ranks) {
      for (std::int64_t stages = 1; stages <= 4; ++stages) {
        for (const std::int64_t micro_batches : {1, 2, 3, 4, 7, 8, 16, 32}) {
          const PipelineShape shape{schedule, ranks, stages, micro_batches};
          if (check(shape)) {
            SCOPED_TRACE(testing::Message()
                         << "schedule " << static_cast<int>(schedule) << ", " << ranks << " ranks of "
                         << stages << " stages, " << micro_batches << " micro-batches");
            EXPECT_EQ(unmatched(runtime_actions(shape, {})), 0);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace commlens::pytorch
