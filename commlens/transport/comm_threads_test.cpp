#include "commlens/transport/comm_threads.hpp"

#include <array>
#include <atomic>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "commlens/base/result.hpp"
#include "commlens/transport/conformance_cases.hpp"
#include "commlens/transport/thread_ranks.hpp"

namespace commlens {
namespace {

class ThreadConformance : public testing::TestWithParam<conformance::Case> {};

TEST_P(ThreadConformance, HoldsForGroupsOfOneToFiveRanks) {
  for (const std::int64_t ranks : {1, 2, 3, 5}) {
    if (ranks < GetParam().ranks) {
      continue;
    }
    SCOPED_TRACE(ranks);
    run_thread_ranks(
        ranks, [&](std::unique_ptr<Communicator> world) { GetParam().check(*world, conformance::Target{}); });
  }
}

INSTANTIATE_TEST_SUITE_P(Threads, ThreadConformance, testing::ValuesIn(conformance::k_cases),
                         [](const auto& made) { return std::string(made.param.name); });

/// Waits until `number` is at least `least`.
void await(std::atomic<int>& number, int least) {
  for (int seen = number; seen < least; seen = number) {
    number.wait(seen);
  }
}

void add_one(std::atomic<int>& number) {
  ++number;
  number.notify_all();
}

using Body = std::function<void(Communicator& world)>;

/// The error of run_thread_ranks for a job; empty if it succeeds.
std::string failure_of(std::int64_t ranks, const Body& body) {
  try {
    run_thread_ranks(ranks, [&](std::unique_ptr<Communicator> world) { body(*world); });
  } catch (const SystemError& error) {
    return error.what();
  }
  return {};
}

/// A call whose one buffer, of 8 bytes an element at most, is `buffer`.
CommCall call_in_place(CommKind kind, DType dtype, std::int64_t count, std::vector<double>& buffer) {
  return {.kind = kind,
          .dtype = dtype,
          .input_buffer = buffer.data(),
          .output_buffer = buffer.data(),
          .input = {count},
          .output = {count}};
}

/// A job of two ranks, each making its call.
std::string failure_of_calls(const CommCall& first, const CommCall& second) {
  return failure_of(2, [&](Communicator& world) {
    std::vector<double> buffer(64);
    std::vector<double> other(64);
    CommCall call = world.rank().value == 0 ? first : second;
    call.input_buffer = buffer.data();
    call.output_buffer = other.data();
    world.run(call);
  });
}

/// Either of the two ranks may call first.
void expect_named(const std::string& failure, const std::string& of_rank_0, const std::string& of_rank_1) {
  const std::string ranks[] = {"rank 0 calls " + of_rank_0, "rank 1 calls " + of_rank_1};
  EXPECT_TRUE(failure == "rank 0: " + ranks[0] + " where " + ranks[1] ||
              failure == "rank 1: " + ranks[1] + " where " + ranks[0])
      << failure;
}

CommCall of(CommKind kind, DType dtype, std::int64_t input, std::int64_t output) {
  return {.kind = kind, .dtype = dtype, .input = {input}, .output = {output}};
}

TEST(ThreadMismatch, AnotherKindIsNamed) {
  expect_named(failure_of_calls(of(CommKind::all_reduce, DType::fp32, 10, 10),
                                of(CommKind::all_gather, DType::fp32, 10, 20)),
               "all_reduce of 10 fp32", "all_gather of 10 fp32");
}

TEST(ThreadMismatch, AnotherTypeIsNamed) {
  expect_named(failure_of_calls(of(CommKind::all_reduce, DType::fp32, 10, 10),
                                of(CommKind::all_reduce, DType::int32, 10, 10)),
               "all_reduce of 10 fp32", "all_reduce of 10 int32");
}

TEST(ThreadMismatch, AnotherSizeIsNamed) {
  expect_named(failure_of_calls(of(CommKind::all_to_all, DType::uint8, 10, 10),
                                of(CommKind::all_to_all, DType::uint8, 12, 12)),
               "all_to_all of 10 uint8", "all_to_all of 12 uint8");
}

TEST(ThreadMismatch, AnotherReductionIsNamed) {
  CommCall largest = of(CommKind::reduce_scatter, DType::bf16, 10, 5);
  largest.reduction = ReduceOp::max;
  expect_named(failure_of_calls(of(CommKind::reduce_scatter, DType::bf16, 10, 5), largest),
               "reduce_scatter of 10 bf16", "reduce_scatter of 10 bf16 (max)");
}

TEST(ThreadMismatch, AnotherRootIsNamed) {
  CommCall second = of(CommKind::broadcast, DType::fp32, 4, 4);
  second.peer = GroupRank{1};
  second.tag = "wte";
  expect_named(failure_of_calls(of(CommKind::broadcast, DType::fp32, 4, 4), second),
               "broadcast of 4 fp32 (root 0)", "broadcast of 4 fp32 (root 1) \"wte\"");
}

TEST(ThreadMismatch, AMessageOfAnotherSizeIsNamed) {
  CommCall send = of(CommKind::send, DType::fp32, 8, 0);
  send.peer = GroupRank{1};
  expect_named(failure_of_calls(send, of(CommKind::recv, DType::fp32, 0, 64)), "send of 8 fp32",
               "recv of 64 fp32");
}

TEST(ThreadMismatch, FreesRanksThatWaitForOtherThings) {
  const std::string failure = failure_of(4, [](Communicator& world) {
    const std::unique_ptr<Communicator> half = world.split(world.rank().value / 2, 0);
    std::vector<double> buffer(4);
    if (world.rank().value >= 2) {
      half->run(call_in_place(CommKind::all_reduce, DType::fp32, world.rank().value, buffer));
    }
    world.barrier();
  });
  EXPECT_NE(failure.find("all_reduce of 2 fp32"), std::string::npos) << failure;
  EXPECT_NE(failure.find("all_reduce of 3 fp32"), std::string::npos) << failure;
}

TEST(ThreadCall, SaysWhatIsWrongWithItself) {
  EXPECT_EQ(failure_of_calls(of(CommKind::all_gather, DType::fp32, 3, 7), {}),
            "rank 0: all_gather over 2 ranks cannot have 3 elements in and 7 out");
  CommCall to_itself = of(CommKind::send, DType::fp32, 3, 0);
  EXPECT_EQ(failure_of_calls(to_itself, {}), "rank 0: send of 3 fp32 names its own rank");
  to_itself.peer = GroupRank{2};
  EXPECT_EQ(failure_of_calls(to_itself, {}), "rank 0: send of 3 fp32 names rank 2 of a group of 2");
  EXPECT_EQ(failure_of_calls(of(CommKind::all_reduce, DType::fp8, 3, 3), {}),
            "rank 0: all_reduce of 3 fp8: elements of this type cannot be combined");
  EXPECT_EQ(failure_of_calls(of(CommKind::other, DType::fp32, 0, 0), {}),
            "rank 0: a communicator cannot make a call of kind other that is neither gather nor scatter");
  EXPECT_EQ(
      failure_of(1, [](Communicator& world) { world.run(of(CommKind::all_reduce, DType::fp32, 1, 1)); }),
      "rank 0: all_reduce of 1 fp32 lacks a buffer");
}

TEST(ThreadRanks, TheRankThatFailedFirstIsNamed) {
  const std::string failure = failure_of(4, [](Communicator& world) {
    if (world.rank() == GroupRank{2}) {
      throw SystemError("no memory");
    }
    world.barrier();
  });
  EXPECT_EQ(failure, "rank 2: no memory");
}

TEST(ThreadRanks, AnyStandardExceptionEndsTheJob) {
  EXPECT_EQ(failure_of(2,
                       [](Communicator& world) {
                         if (world.rank() == GroupRank{1}) {
                           throw std::out_of_range("index 7");
                         }
                         world.barrier();
                       }),
            "rank 1: index 7");
}

TEST(ThreadRanks, OthersHearWhoFailed) {
  std::string heard;
  failure_of(2, [&](Communicator& world) {
    if (world.rank() == GroupRank{1}) {
      throw SystemError("no memory");
    }
    try {
      world.barrier();
    } catch (const SystemError& error) {
      heard = error.what();
      throw;
    }
  });
  EXPECT_EQ(heard, "rank 1 failed: no memory");
}

TEST(ThreadRanks, EachRankHasItsPlaceInTheWorld) {
  std::array<std::atomic<int>, 3> seen{};
  run_thread_ranks(3, [&](std::unique_ptr<Communicator> world) {
    EXPECT_EQ(world->members(), (std::vector{Rank{0}, Rank{1}, Rank{2}}));
    ++seen.at(static_cast<std::size_t>(world->rank().value));
  });
  EXPECT_EQ(seen[0], 1);
  EXPECT_EQ(seen[1], 1);
  EXPECT_EQ(seen[2], 1);
}

TEST(ThreadAbort, WakesEveryRankWithTheReason) {
  std::atomic<int> arrived = 0;
  std::atomic<int> heard = 0;
  const std::string failure = failure_of(4, [&](Communicator& world) {
    const std::unique_ptr<Communicator> half = world.split(world.rank().value % 2, 0);
    if (world.rank() == GroupRank{3}) {
      await(arrived, 3);
      world.abort("stopped by the user");
      EXPECT_THROW(half->barrier(), SystemError);
      return;
    }
    add_one(arrived);
    // Ranks 0 and 2 wait in the world's barrier, 1 in that of its half.
    try {
      (world.rank() == GroupRank{1} ? *half : world).barrier();
    } catch (const SystemError& error) {
      heard += std::string(error.what()) == "stopped by the user" ? 1 : 0;
    }
  });
  EXPECT_EQ(failure, "rank 3: stopped by the user");
  EXPECT_EQ(heard, 3);
}

TEST(ThreadAbort, AnotherThreadMayCallIt) {
  const std::string failure = failure_of(2, [](Communicator& world) {
    if (world.rank() == GroupRank{0}) {
      std::thread([&] { world.abort("time is up"); }).join();
    }
    world.barrier();
    world.barrier();
  });
  EXPECT_EQ(failure, "rank 0: time is up");
}

TEST(ThreadAbort, OnlyTheFirstReasonCounts) {
  EXPECT_EQ(failure_of(1,
                       [](Communicator& world) {
                         world.abort("first");
                         world.abort("second");
                       }),
            "rank 0: first");
}

TEST(ThreadLeaving, ARankThatOthersWaitForIsNamed) {
  EXPECT_EQ(failure_of(2,
                       [](Communicator& world) {
                         if (world.rank() == GroupRank{0}) {
                           world.barrier();
                         }
                       })
                .substr(8),
            "rank 0 calls barrier, but rank 1 has left the group");
}

TEST(ThreadLeaving, AMessageWithoutASenderIsNamed) {
  const std::string failure = failure_of(3, [](Communicator& world) {
    if (world.rank() == GroupRank{2}) {
      float message = 0;
      world.run({.kind = CommKind::recv,
                 .dtype = DType::fp32,
                 .output_buffer = &message,
                 .output = {1},
                 .peer = GroupRank{0}});
    }
  });
  EXPECT_NE(failure.find("rank 2 calls recv of 1 fp32, but rank 0 has left the group"), std::string::npos)
      << failure;
}

TEST(ThreadLeaving, IsFineOnceItsCallsAreMade) {
  EXPECT_EQ(failure_of(3,
                       [](Communicator& world) {
                         std::vector<double> buffer(100'000);
                         const std::unique_ptr<Communicator> part = world.split(0, 0);
                         part->run(call_in_place(CommKind::all_reduce, DType::fp64, 100'000, buffer));
                         world.barrier();
                       }),
            "");
}

/// A large call is running and some ranks already carry it out when the exception of rank 0 destroys its
/// buffer; the address and thread sanitizers check that no rank reads it after that.
TEST(ThreadUnwinding, BuffersOfAReadyCallAreReleasedFirst) {
  for (int repetition = 0; repetition < 30; ++repetition) {
    const std::string failure = failure_of(3, [](Communicator& world) {
      constexpr std::int64_t k_count = 200'000;
      std::vector<double> buffer(k_count, 1.0);
      const std::unique_ptr<Work> work =
          world.start(call_in_place(CommKind::all_reduce, DType::fp64, k_count, buffer));
      if (world.rank() == GroupRank{0}) {
        throw SystemError("early");
      }
      work->wait();
    });
    ASSERT_EQ(failure, "rank 0: early");
  }
}

/// Starts a call and unwinds it, with its buffer, by an exception that leaves once two others have posted.
[[noreturn]] void unwind_open_call(Communicator& world, std::int64_t count, std::atomic<int>& gone,
                                   std::atomic<int>& posted) {
  try {
    std::vector<double> lost(static_cast<std::size_t>(count));
    [[maybe_unused]] const std::unique_ptr<Work> work =
        world.start(call_in_place(CommKind::all_reduce, DType::fp64, count, lost));
    throw std::runtime_error("early");
  } catch (const std::runtime_error&) {
    add_one(gone);
    await(posted, 2);
    throw;
  }
}

/// The exception occurs before the others have posted: they must not start the call any more, and wait until
/// the job ends.
TEST(ThreadUnwinding, BuffersOfAnOpenCallAreReleased) {
  for (int repetition = 0; repetition < 30; ++repetition) {
    std::atomic<int> gone = 0;
    std::atomic<int> posted = 0;
    const std::string failure = failure_of(3, [&](Communicator& world) {
      constexpr std::int64_t k_count = 100'000;
      if (world.rank() == GroupRank{0}) {
        unwind_open_call(world, k_count, gone, posted);
      }
      std::vector<double> buffer(k_count, 1.0);
      await(gone, 1);
      const std::unique_ptr<Work> work =
          world.start(call_in_place(CommKind::all_reduce, DType::fp64, k_count, buffer));
      add_one(posted);
      work->wait();
    });
    ASSERT_EQ(failure, "rank 0: early");
  }
}

TEST(ThreadUnwinding, ADroppedWorkIsCompletedFirst) {
  run_thread_ranks(2, [](std::unique_ptr<Communicator> world) {
    std::vector<double> buffer(50'000, 2.0);
    world->start(call_in_place(CommKind::all_reduce, DType::fp64, 50'000, buffer)).reset();
    EXPECT_EQ(buffer, std::vector<double>(50'000, 4.0));
  });
}

TEST(ThreadSums, AreTakenInGroupOrderOnAllRanks) {
  run_thread_ranks(3, [](std::unique_ptr<Communicator> world) {
    // 1e8 + 1 is 1e8 in fp32: only one order gives 1.
    constexpr std::array given{1e8F, -1e8F, 1.0F};
    constexpr std::int64_t k_count = 40'000;
    std::vector<float> buffer(k_count, given.at(static_cast<std::size_t>(world->rank().value)));
    world->run({.kind = CommKind::all_reduce,
                .dtype = DType::fp32,
                .input_buffer = buffer.data(),
                .output_buffer = buffer.data(),
                .input = {k_count},
                .output = {k_count}});
    EXPECT_EQ(buffer, std::vector<float>(k_count, 1.0F));
  });
}

TEST(ThreadSums, ManySmallCallsOfManyGroupsKeepApart) {
  run_thread_ranks(4, [](std::unique_ptr<Communicator> world) {
    const std::int64_t self = world->rank().value;
    const std::unique_ptr<Communicator> row = world->split(self / 2, self);
    const std::unique_ptr<Communicator> column = world->split(self % 2, self);
    for (std::int64_t i = 0; i < 1000; ++i) {
      std::int64_t of_row = self + i;
      std::int64_t of_column = self * i;
      const auto call_on = [](std::int64_t& value) {
        return CommCall{.kind = CommKind::all_reduce,
                        .dtype = DType::int64,
                        .input_buffer = &value,
                        .output_buffer = &value,
                        .input = {1},
                        .output = {1}};
      };
      const std::unique_ptr<Work> first = row->start(call_on(of_row));
      const std::unique_ptr<Work> second = column->start(call_on(of_column));
      second->wait();
      first->wait();
      // The row of rank 2r is 2r and 2r + 1, the column of rank c is c and c + 2.
      ASSERT_EQ(of_row, 4 * (self / 2) + 1 + 2 * i);
      ASSERT_EQ(of_column, (2 * (self % 2) + 2) * i);
    }
  });
}

}  // namespace
}  // namespace commlens
