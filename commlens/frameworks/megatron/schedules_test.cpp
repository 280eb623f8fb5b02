#include "commlens/frameworks/megatron/schedules.hpp"

#include <algorithm>
#include <deque>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace commlens::megatron {
namespace {

using Kind = Action::Kind;

/// The messages that a stage sends one way and receives the other way.
struct Messages {
  std::int64_t sent_forward = 0;
  std::int64_t received_forward = 0;
  std::int64_t sent_backward = 0;
  std::int64_t received_backward = 0;
};

Messages messages_of(const std::vector<Action>& actions) {
  Messages count;
  for (const Action& action : actions) {
    count.sent_forward += action.exchange.sends_forward ? 1 : 0;
    count.received_forward += action.exchange.receives_forward ? 1 : 0;
    count.sent_backward += action.exchange.sends_backward ? 1 : 0;
    count.received_backward += action.exchange.receives_backward ? 1 : 0;
  }
  return count;
}

std::int64_t passes(const std::vector<Action>& actions, Kind kind) {
  return std::count_if(actions.begin(), actions.end(), [&](const Action& a) { return a.kind == kind; });
}

void expect_messages_match(ScheduleSettings settings) {
  std::vector<Messages> stages;
  for (settings.stage = 0; settings.stage < settings.stages; ++settings.stage) {
    const std::vector<Action> actions = schedule(settings);
    const std::int64_t all = settings.micro_batches * settings.chunks;
    EXPECT_EQ(passes(actions, Kind::forward), all);
    EXPECT_EQ(passes(actions, Kind::backward), settings.forward_only ? 0 : all);
    stages.push_back(messages_of(actions));
  }
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    const Messages& next = stages[(stage + 1) % stages.size()];
    EXPECT_EQ(stages[stage].sent_forward, next.received_forward) << "stage " << stage;
    EXPECT_EQ(next.sent_backward, stages[stage].received_backward) << "stage " << stage;
  }
}

TEST(MegatronSchedule, EveryMessageOfAnyPipelineIsReceived) {
  for (std::int64_t stages = 2; stages <= 8; ++stages) {
    for (std::int64_t chunks = 1; chunks <= 5; ++chunks) {
      for (const std::int64_t micro_batches : {stages, 2 * stages, 64 / stages * stages}) {
        for (const bool overlaps : {false, true}) {
          for (const bool at_ends : {false, true}) {
            if ((chunks > 1 && stages == 2 && !overlaps) || (at_ends && !overlaps)) {
              continue;
            }
            SCOPED_TRACE(std::to_string(stages) + " stages of " + std::to_string(chunks) + " chunks, " +
                         std::to_string(micro_batches) + " micro-batches");
            expect_messages_match({.stages = stages,
                                   .chunks = chunks,
                                   .micro_batches = micro_batches,
                                   .group = stages,
                                   .overlaps = overlaps && chunks > 1,
                                   .overlaps_at_ends = at_ends && chunks > 1});
          }
        }
      }
    }
  }
}

TEST(MegatronSchedule, EveryMessageOfAnEvaluationIsReceived) {
  for (const std::int64_t chunks : {1, 2, 3}) {
    expect_messages_match(
        {.stages = 4, .chunks = chunks, .micro_batches = 8, .group = 4, .forward_only = true});
  }
}

TEST(MegatronSchedule, FewerMicroBatchesThanStagesFillAndDrain) {
  for (std::int64_t micro_batches = 1; micro_batches < 6; ++micro_batches) {
    expect_messages_match({.stages = 6, .micro_batches = micro_batches});
  }
}

/// schedules.py, its own example: PP2 N3M5 with VP2 runs chunks 0 0 0 1 1 1 0 0 1 1.
TEST(MegatronSchedule, GroupsOfMicroBatchesTakeTurnsOfChunks) {
  const std::vector<Action> actions =
      schedule({.stage = 1, .stages = 2, .chunks = 2, .micro_batches = 5, .group = 3, .forward_only = true});
  std::vector<std::int64_t> chunks;
  std::vector<std::int64_t> micro_batches;
  for (const Action& action : actions) {
    if (action.kind == Kind::forward) {
      chunks.push_back(action.chunk);
      micro_batches.push_back(action.micro_batch);
    }
  }
  EXPECT_EQ(chunks, (std::vector<std::int64_t>{0, 0, 0, 1, 1, 1, 0, 0, 1, 1}));
  EXPECT_EQ(micro_batches, (std::vector<std::int64_t>{0, 1, 2, 0, 1, 2, 3, 4, 3, 4}));
}

/// One-forward-one-backward: stage 1 of 4 warms up with 2.
TEST(MegatronSchedule, OneForwardOneBackwardWarmsUpByTheStagesBehind) {
  const std::vector<Action> actions = schedule({.stage = 1, .stages = 4, .micro_batches = 8});
  std::string order;
  for (const Action& action : actions) {
    order += action.kind == Kind::forward ? "F" : action.kind == Kind::backward ? "B" : "";
  }
  EXPECT_EQ(order, "FFFBFBFBFBFBFBBB");
}

TEST(MegatronSchedule, AlignedStagesReduceEachChunkOnceBehindItsLastPass) {
  for (std::int64_t stage = 0; stage < 4; ++stage) {
    const std::vector<Action> actions = schedule(
        {.stage = stage, .stages = 4, .chunks = 2, .micro_batches = 8, .group = 4, .aligns_gradients = true});
    std::deque<std::int64_t> last = {0, 0};
    std::vector<std::int64_t> reduced;
    for (const Action& action : actions) {
      last[static_cast<std::size_t>(action.chunk)] += action.kind == Kind::backward ? 1 : 0;
      if (action.kind == Kind::reduce_gradients) {
        EXPECT_EQ(last[static_cast<std::size_t>(action.chunk)], 8) << "stage " << stage;
        reduced.push_back(action.chunk);
      }
    }
    EXPECT_EQ(reduced, (std::vector<std::int64_t>{1, 0}));
  }
}

}  // namespace
}  // namespace commlens::megatron
