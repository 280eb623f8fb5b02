#include "commlens/transport/call_watch.hpp"

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

constexpr std::chrono::milliseconds k_soon{300};  // also for a thread that the system makes wait

/// Runs `body` in watched threads; returns the reason that ends the job.
template <typename Body>
std::string reason_of(std::int64_t ranks, const Body& body) {
  const auto watch = CallWatch::make(CallBoard::of_threads(ranks), {.timeout = k_soon});
  try {
    run_thread_ranks(ranks,
                     [&](std::unique_ptr<Communicator> world) { body(*watch->watched(std::move(world))); });
  } catch (const SystemError& error) {
    return error.what();
  }
  return {};
}

CommCall call_of(CommKind kind, std::vector<float>& buffer, std::string_view tag) {
  const Elements count{static_cast<std::int64_t>(buffer.size())};
  return {.kind = kind,
          .dtype = DType::fp32,
          .input_buffer = buffer.data(),
          .output_buffer = buffer.data(),
          .input = count,
          .output = count,
          .tag = tag};
}

TEST(CallWatch, WatchesACommunicatorThatWasMadeWithAnAlgorithm) {
  std::latch freed(1);
  const std::string reason = reason_of(2, [&](Communicator& world) {
    const std::vector<std::string> algorithms = world.algorithms(CommKind::all_reduce);
    ASSERT_EQ(algorithms, std::vector<std::string>{"reduce_scatter_all_gather"});
    const auto chosen = world.with_algorithm(CommKind::all_reduce, algorithms.front());
    ASSERT_TRUE(chosen);
    std::vector<float> buffer(16, 1);
    (*chosen)->run(call_of(CommKind::all_reduce, buffer, "first"));
    EXPECT_EQ(buffer, std::vector<float>(16, 2));
    if (world.rank() == GroupRank{1}) {
      freed.wait();
      return;
    }
    try {
      (*chosen)->run(call_of(CommKind::all_reduce, buffer, "gradients"));
    } catch (const SystemError&) {
      freed.count_down();
      throw;
    }
  });
  EXPECT_NE(reason.find("missing: rank 1"), std::string::npos) << reason;
}

TEST(CallWatch, NamesTheRankItsCallAndWhoIsMissing) {
  std::latch freed(3);
  const std::string reason = reason_of(4, [&](Communicator& world) {
    std::vector<float> buffer(16);
    world.barrier();
    world.run(call_of(CommKind::all_reduce, buffer, "first"));
    if (world.rank() == GroupRank{2}) {
      freed.wait();  // stuck until the others have been freed
      return;
    }
    try {
      world.run(call_of(CommKind::all_reduce, buffer, "gradients"));
    } catch (const SystemError&) {
      freed.count_down();
      throw;
    }
  });
  // Whichever of the three came first.
  EXPECT_EQ(reason.substr(0, 5), "rank ");
  EXPECT_NE(reason.find(
                ": waited 300 ms for all_reduce of 16 fp32 \"gradients\", call 3 of ranks 0-3; missing: rank "
                "2 (busy outside of communication)"),
            std::string::npos)
      << reason;
}

TEST(CallWatch, ReportsTheCallThatTheMissingRankWaitsFor) {
  const std::string reason = reason_of(2, [](Communicator& world) {
    std::vector<float> buffer(8);
    const std::unique_ptr<Communicator> pair = world.split(0, 0);
    if (world.rank() == GroupRank{0}) {
      world.run(call_of(CommKind::all_reduce, buffer, "here"));
    } else {
      pair->run(call_of(CommKind::all_reduce, buffer, "there"));
    }
  });
  const bool by_0 = reason.find(
                        "rank 0: waited 300 ms for all_reduce of 8 fp32 \"here\", call 2 of ranks 0-1; "
                        "missing: rank 1 (waits for all_reduce of 8 fp32 \"there\", call 1 of ranks 0-1)") !=
                    std::string::npos;
  const bool by_1 = reason.find(
                        "rank 1: waited 300 ms for all_reduce of 8 fp32 \"there\", call 1 of ranks 0-1; "
                        "missing: rank 0 (waits for all_reduce of 8 fp32 \"here\", call 2 of ranks 0-1)") !=
                    std::string::npos;
  EXPECT_TRUE(by_0 || by_1) << reason;
}

TEST(CallWatch, OfAMessageNamesItsOtherSide) {
  std::latch heard(1);
  const std::string reason = reason_of(3, [&](Communicator& world) {
    std::vector<float> message(4);
    if (world.rank() != GroupRank{2}) {
      heard.wait();
      return;
    }
    CommCall call = call_of(CommKind::recv, message, "activations");
    call.input = {0};
    call.peer = GroupRank{1};
    try {
      world.start(call)->wait();
    } catch (const SystemError&) {
      heard.count_down();
      throw;
    }
  });
  EXPECT_NE(reason.find(
                "rank 2: waited 300 ms for recv of 4 fp32 \"activations\" from rank 1, call 1 of ranks 0-2; "
                "missing: rank 1 (busy outside of communication)"),
            std::string::npos)
      << reason;
}

TEST(CallWatch, KnowsOfNoWaitBetweenCalls) {
  const CallBoard board = CallBoard::of_threads(2);
  const auto watch = CallWatch::make(board, {});
  run_thread_ranks(2, [&](std::unique_ptr<Communicator> own) {
    const std::int64_t self = own->rank().value;
    const auto world = watch->watched(std::move(own));
    world->barrier();
    EXPECT_FALSE(board.entry(self).waiting().has_value());
    const std::unique_ptr<Work> work = world->start({.kind = CommKind::barrier});
    EXPECT_FALSE(board.entry(self).waiting().has_value());
    work->wait();
    EXPECT_FALSE(board.entry(self).waiting().has_value());
  });
}

TEST(CallWatch, GivesUpOnAJobThatCannotEnd) {
  std::latch given_up(1);
  std::string heard;
  const auto watch = CallWatch::make(CallBoard::of_threads(2), {.timeout = k_soon,
                                                                .give_up =
                                                                    [&](const std::string& reason) {
                                                                      heard = reason;
                                                                      given_up.count_down();
                                                                    },
                                                                .grace = k_soon});
  EXPECT_THROW(run_thread_ranks(2,
                                [&](std::unique_ptr<Communicator> own) {
                                  const auto world = watch->watched(std::move(own));
                                  if (world->rank() == GroupRank{1}) {
                                    given_up.wait();  // a rank that is not notified until then
                                  }
                                  world->barrier();
                                }),
               SystemError);
  EXPECT_NE(heard.find("rank 0: waited 300 ms for barrier, call 1 of ranks 0-1; missing: rank 1"),
            std::string::npos)
      << heard;
}

/// A call of a device: wait() returns at once, and it is never complete.
class EndlessWork final : public Work {
 public:
  void wait() override {}
  bool is_complete() override { return false; }
};

class DeviceCommunicator final : public Communicator {
 public:
  explicit DeviceCommunicator(std::latch& aborted) : aborted_(aborted) {}
  const std::vector<Rank>& members() const override { return members_; }
  GroupRank rank() const override { return GroupRank{0}; }
  std::unique_ptr<Work> start(const CommCall& /*call*/) override { return std::make_unique<EndlessWork>(); }
  std::unique_ptr<Communicator> split(std::int64_t /*color*/, std::int64_t /*key*/) override {
    return nullptr;
  }
  void abort(std::string_view reason) override {
    reason_ = reason;
    aborted_.count_down();
  }
  const std::string& reason() const { return reason_; }

 private:
  std::vector<Rank> members_{Rank{0}, Rank{1}};
  std::latch& aborted_;
  std::string reason_;
};

TEST(CallWatch, SeesDeviceCallsWithoutAWaitingRank) {
  std::latch aborted(1);
  const auto watch = CallWatch::make(CallBoard::of_threads(2), {.timeout = k_soon});
  auto device = std::make_unique<DeviceCommunicator>(aborted);
  const DeviceCommunicator& inner = *device;
  const auto world = watch->watched(std::move(device));
  std::vector<float> buffer(2);
  const std::unique_ptr<Work> work = world->start(call_of(CommKind::all_reduce, buffer, "gradients"));
  work->wait();
  aborted.wait();
  EXPECT_NE(inner.reason().find("waited 300 ms for all_reduce of 2 fp32 \"gradients\""), std::string::npos)
      << inner.reason();
}

/// A transport that starts a call as soon as it is issued, without the other ranks.
class EagerWork final : public Work {
 public:
  explicit EagerWork(std::unique_ptr<Work> work)
      : work_(std::move(work)), issued_ns_(Clock::of_process().now_ns()) {}
  void wait() override { work_->wait(); }
  bool is_complete() override { return work_->is_complete(); }
  std::optional<MovedTimes> moved() const override {
    return MovedTimes{issued_ns_, Clock::of_process().now_ns()};
  }

 private:
  std::unique_ptr<Work> work_;
  std::int64_t issued_ns_;
};

class EagerCommunicator final : public Communicator {
 public:
  explicit EagerCommunicator(std::unique_ptr<Communicator> inner) : inner_(std::move(inner)) {}
  const std::vector<Rank>& members() const override { return inner_->members(); }
  GroupRank rank() const override { return inner_->rank(); }
  std::unique_ptr<Work> start(const CommCall& call) override {
    return std::make_unique<EagerWork>(inner_->start(call));
  }
  std::unique_ptr<Communicator> split(std::int64_t color, std::int64_t key) override {
    return inner_->split(color, key);
  }
  void abort(std::string_view reason) override { inner_->abort(reason); }

 private:
  std::unique_ptr<Communicator> inner_;
};

TEST(CallWatch, DataDoNotMoveBeforeTheLastRankHasIssuedTheCall) {
  const auto watch = CallWatch::make(CallBoard::of_threads(2), {});
  std::latch first_has_issued(1);
  std::atomic<std::int64_t> before_last_ns = 0;
  run_thread_ranks(2, [&](std::unique_ptr<Communicator> own) {
    const auto world = watch->watched(std::make_unique<EagerCommunicator>(std::move(own)));
    std::vector<float> buffer(4);
    if (world->rank() == GroupRank{1}) {
      first_has_issued.wait();
      before_last_ns = Clock::of_process().now_ns();
    }
    const std::unique_ptr<Work> work = world->start(call_of(CommKind::all_reduce, buffer, "gradients"));
    if (world->rank() == GroupRank{0}) {
      first_has_issued.count_down();
    }
    work->wait();
    ASSERT_TRUE(work->moved().has_value());
    EXPECT_GE(work->moved()->started_ns, before_last_ns.load());
  });
}

TEST(CallWatch, NamesTheCallThatIsMissedOfThoseIssuedAsOne) {
  std::latch freed(1);
  const std::string reason = reason_of(2, [&](Communicator& world) {
    const bool waits = world.rank() == GroupRank{0};
    std::vector<float> sent(3);
    std::vector<float> received(3);
    CommCall send = call_of(CommKind::send, sent, "there");
    send.output = {0};
    CommCall recv = call_of(CommKind::recv, received, "back");
    recv.input = {0};
    send.peer = recv.peer = GroupRank{waits ? 1 : 0};
    if (!waits) {
      world.run(recv);
      freed.wait();  // does not send anything back
      return;
    }
    try {
      const std::vector<CommCall> calls{send, recv};
      world.start_group(calls)->wait();
    } catch (const SystemError&) {
      freed.count_down();
      throw;
    }
  });
  EXPECT_NE(
      reason.find("waited 300 ms for recv of 3 fp32 \"back\" from rank 1, call 1 of ranks 0-1; missing: "
                  "rank 1"),
      std::string::npos)
      << reason;
}

TEST(CallWatch, NamesAGather) {
  std::latch freed(1);
  const std::string reason = reason_of(2, [&](Communicator& world) {
    if (world.rank() == GroupRank{1}) {
      freed.wait();
      return;
    }
    float part = 1;
    std::vector<float> whole(2);
    try {
      world.run({.kind = CommKind::other,
                 .dtype = DType::fp32,
                 .input_buffer = &part,
                 .output_buffer = whole.data(),
                 .input = {1},
                 .output = {2},
                 .other = OtherCall::gather});
    } catch (const SystemError&) {
      freed.count_down();
      throw;
    }
  });
  EXPECT_NE(reason.find("waited 300 ms for gather of 1 fp32 (root 0), call 1 of ranks 0-1; missing: rank 1"),
            std::string::npos)
      << reason;
}

TEST(CallBoard, KeepsTheLastIssuesOfAGroup) {
  GroupCalls calls;
  EXPECT_FALSE(calls.issue_of(0).has_value());
  for (std::int64_t number = 0; number < 100; ++number) {
    calls.add(1000 + number);
  }
  EXPECT_EQ(calls.issue_of(99), 1099);
  EXPECT_EQ(calls.issue_of(70), 1070);
  EXPECT_FALSE(calls.issue_of(3).has_value());  // long ago
  EXPECT_FALSE(calls.issue_of(100).has_value());
}

class WatchedConformance : public testing::TestWithParam<conformance::Case> {};

TEST_P(WatchedConformance, HoldsForThreeRanks) {
  const auto watch = CallWatch::make(CallBoard::of_threads(3), {.timeout = std::chrono::minutes(5)});
  run_thread_ranks(3, [&](std::unique_ptr<Communicator> world) {
    GetParam().check(*watch->watched(std::move(world)), conformance::Target{});
  });
}

INSTANTIATE_TEST_SUITE_P(Threads, WatchedConformance, testing::ValuesIn(conformance::k_cases),
                         [](const auto& made) { return std::string(made.param.name); });

}  // namespace
}  // namespace commlens
