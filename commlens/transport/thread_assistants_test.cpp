#include "commlens/transport/thread_assistants.hpp"

#include <atomic>
#include <chrono>
#include <latch>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "commlens/base/result.hpp"
#include "commlens/trace/clock.hpp"
#include "commlens/transport/conformance_cases.hpp"
#include "commlens/transport/thread_ranks.hpp"

namespace commlens {
namespace {

constexpr std::int64_t k_count = 300'000;  // several pieces

CommCall sum_of(std::vector<float>& buffer) {
  return {.kind = CommKind::all_reduce,
          .dtype = DType::fp32,
          .input_buffer = buffer.data(),
          .output_buffer = buffer.data(),
          .input = {static_cast<std::int64_t>(buffer.size())},
          .output = {static_cast<std::int64_t>(buffer.size())}};
}

/// Polls until the call is complete, for a minute at most; never waits in the transport.
bool becomes_complete(Work& work) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (!work.is_complete()) {
    if (std::chrono::steady_clock::now() > end) {
      return false;
    }
    std::this_thread::yield();
  }
  return true;
}

TEST(ThreadAssistants, CompleteACallThatNoRankWaitsFor) {
  run_thread_ranks(2,
                   [](std::unique_ptr<Communicator> world) {
                     std::vector<float> buffer(k_count, 1.0F);
                     const std::unique_ptr<Work> work = world->start(sum_of(buffer));
                     ASSERT_TRUE(becomes_complete(*work));
                     EXPECT_EQ(buffer, std::vector<float>(k_count, 2.0F));
                   },
                   {.assistants = 1});
}

TEST(ThreadAssistants, WithoutThemNothingMovesUntilARankWaits) {
  std::latch issued(2);
  std::latch looked(2);
  run_thread_ranks(2, [&](std::unique_ptr<Communicator> world) {
    std::vector<float> buffer(k_count, 1.0F);
    const std::unique_ptr<Work> work = world->start(sum_of(buffer));
    issued.arrive_and_wait();
    EXPECT_FALSE(work->is_complete());
    const std::int64_t before_ns = Clock::of_process().now_ns();
    looked.arrive_and_wait();  // no rank waits for the call before this
    work->wait();
    ASSERT_TRUE(work->moved().has_value());
    EXPECT_GE(work->moved()->finished_ns, work->moved()->started_ns);
    EXPECT_GE(work->moved()->finished_ns, before_ns);
  });
}

/// Rank 0 issues its call long before rank 1: what it waits for rank 1 is no time in which data move.
TEST(ThreadAssistants, DataStartToMoveWhenTheLastRankHasIssuedTheCall) {
  std::latch first_has_issued(1);
  std::atomic<std::int64_t> last_issue_ns = 0;
  run_thread_ranks(2,
                   [&](std::unique_ptr<Communicator> world) {
                     std::vector<float> buffer(k_count, 1.0F);
                     if (world->rank() == GroupRank{1}) {
                       first_has_issued.wait();
                       last_issue_ns = Clock::of_process().now_ns();
                     }
                     const std::unique_ptr<Work> work = world->start(sum_of(buffer));
                     if (world->rank() == GroupRank{0}) {
                       first_has_issued.count_down();
                     }
                     ASSERT_TRUE(becomes_complete(*work));
                     ASSERT_TRUE(work->moved().has_value());
                     EXPECT_GE(work->moved()->started_ns, last_issue_ns.load());
                     EXPECT_GT(work->moved()->finished_ns, work->moved()->started_ns);
                   },
                   {.assistants = 2});
}

TEST(ThreadAssistants, LeaveNoBufferInUseWhenAnExceptionTakesItAway) {
  for (int repetition = 0; repetition < 20; ++repetition) {
    EXPECT_THROW(run_thread_ranks(3,
                                  [](std::unique_ptr<Communicator> world) {
                                    std::vector<float> buffer(k_count, 1.0F);
                                    const std::unique_ptr<Work> work = world->start(sum_of(buffer));
                                    if (world->rank() == GroupRank{0}) {
                                      throw SystemError("early");
                                    }
                                    work->wait();
                                  },
                                  {.assistants = 2}),
                 SystemError);
  }
}

TEST(ThreadAssistants, ManyCallsOfManyGroupsAreCompleteInTheEnd) {
  constexpr int k_calls = 40;
  run_thread_ranks(4,
                   [](std::unique_ptr<Communicator> world) {
                     const std::int64_t self = world->rank().value;
                     const std::unique_ptr<Communicator> row = world->split(self / 2, self);
                     const std::unique_ptr<Communicator> column = world->split(self % 2, self);
                     std::vector<std::vector<float>> buffers(2 * k_calls, std::vector<float>(20'000, 1.0F));
                     std::vector<std::unique_ptr<Work>> works;
                     for (std::size_t call = 0; call < buffers.size(); ++call) {
                       works.push_back((call % 2 == 0 ? *row : *column).start(sum_of(buffers[call])));
                     }
                     for (std::size_t call = buffers.size(); call-- > 0;) {
                       works[call]->wait();
                       ASSERT_EQ(buffers[call], std::vector<float>(20'000, 2.0F));
                     }
                   },
                   {.assistants = 2});
}

class AssistedConformance : public testing::TestWithParam<conformance::Case> {};

TEST_P(AssistedConformance, HoldsForThreeRanks) {
  run_thread_ranks(
      3, [](std::unique_ptr<Communicator> world) { GetParam().check(*world, conformance::Target{}); },
      {.assistants = 1});
}

INSTANTIATE_TEST_SUITE_P(Threads, AssistedConformance, testing::ValuesIn(conformance::k_cases),
                         [](const auto& made) { return std::string(made.param.name); });

}  // namespace
}  // namespace commlens
