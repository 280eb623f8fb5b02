#include "commlens/transport/comm_mixed.hpp"

#include <atomic>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "commlens/transport/conformance_cases.hpp"
#include "commlens/transport/thread_ranks.hpp"

namespace commlens {
namespace {

/// Counts the calls of a communicator, and has an algorithm by name only: for two ranks and for four.
class CountedCommunicator final : public Communicator {
 public:
  CountedCommunicator(std::unique_ptr<Communicator> below, std::atomic<int>& calls)
      : below_(std::move(below)), calls_(calls) {}
  const std::vector<Rank>& members() const override { return below_->members(); }
  GroupRank rank() const override { return below_->rank(); }
  std::unique_ptr<Work> start(const CommCall& call) override {
    ++calls_;
    return below_->start(call);
  }
  std::unique_ptr<Communicator> split(std::int64_t color, std::int64_t key) override {
    auto part = below_->split(color, key);
    return part == nullptr ? nullptr : std::make_unique<CountedCommunicator>(std::move(part), calls_);
  }
  std::vector<std::string> algorithms(CommKind /*kind*/) const override {
    return size() % 2 == 0 ? std::vector<std::string>{"ring"} : std::vector<std::string>();
  }
  Result<std::unique_ptr<Communicator>> with_algorithm(CommKind kind, const std::string& name) override {
    return name == "ring" && size() % 2 == 0
               ? Result<std::unique_ptr<Communicator>>(below_->split(0, rank().value))
               : Communicator::with_algorithm(kind, name);
  }
  void abort(std::string_view reason) override { below_->abort(reason); }

 private:
  std::unique_ptr<Communicator> below_;
  std::atomic<int>& calls_;
};

/// Every kind: small calls over the first transport, the others over the second one.
TransportTable by_size() {
  TransportTable table;
  for (const CommKind kind : {CommKind::all_reduce, CommKind::all_gather, CommKind::reduce_scatter,
                              CommKind::all_to_all, CommKind::broadcast, CommKind::reduce, CommKind::send}) {
    table.entries.push_back({.kind = kind, .least = Bytes{1000}, .transport = "others"});
  }
  return table;
}

std::unique_ptr<Communicator> mixed_groups(std::unique_ptr<Communicator> world, const TransportTable& table) {
  std::vector<NamedTransport> transports;
  std::unique_ptr<Communicator> others = world->split(0, world->rank().value);
  transports.push_back({"threads", std::move(world)});
  transports.push_back({"others", std::move(others)});
  Result<std::unique_ptr<Communicator>> both = mixed(std::move(transports), table);
  EXPECT_TRUE(both);
  return std::move(*both);
}

class MixedConformance : public testing::TestWithParam<conformance::Case> {};

TEST_P(MixedConformance, HoldsOverTwoGroupsOfThreads) {
  run_thread_ranks(3, [](std::unique_ptr<Communicator> world) {
    GetParam().check(*mixed_groups(std::move(world), by_size()), conformance::Target{});
  });
}

INSTANTIATE_TEST_SUITE_P(Threads, MixedConformance, testing::ValuesIn(conformance::k_cases),
                         [](const auto& tested) { return std::string(tested.param.name); });

CommCall mixed_sum(std::vector<float>& values) {
  const Elements count{static_cast<std::int64_t>(values.size())};
  return {.kind = CommKind::all_reduce,
          .dtype = DType::fp32,
          .input_buffer = values.data(),
          .output_buffer = values.data(),
          .input = count,
          .output = count};
}

TEST(Mixed, SendsEachCallWhereTheTableSays) {
  std::atomic<int> first = 0;
  std::atomic<int> second = 0;
  run_thread_ranks(2, [&](std::unique_ptr<Communicator> world) {
    std::vector<NamedTransport> transports;
    auto others = std::make_unique<CountedCommunicator>(world->split(0, world->rank().value), second);
    transports.push_back({"threads", std::make_unique<CountedCommunicator>(std::move(world), first)});
    transports.push_back({"others", std::move(others)});
    const TransportTable table = *parse_transport_table(
        "op,min_bytes,max_bytes,ranks,transport\nall_reduce,8,12,,others\nall_reduce,16,16,4,others\n");
    const Result<std::unique_ptr<Communicator>> both = mixed(std::move(transports), table);
    ASSERT_TRUE(both);
    const std::unique_ptr<Communicator> part = (*both)->split(0, (*both)->rank().value);
    for (const std::size_t count : {1U, 2U, 3U, 4U}) {  // 4 to 16 bytes: 8 and 12 go to the others
      std::vector<float> values(count, 1);
      (*both)->run(mixed_sum(values));
      part->run(mixed_sum(values));
      EXPECT_EQ(values, std::vector<float>(count, 4));
    }
  });
  EXPECT_EQ(first, 2 * 2 * 2);  // ranks x communicators x sizes
  EXPECT_EQ(second, 2 * 2 * 2);
}

TEST(Mixed, IssuesAGroupOfCallsOverBothAsOne) {
  run_thread_ranks(2, [](std::unique_ptr<Communicator> world) {
    const std::unique_ptr<Communicator> both = mixed_groups(std::move(world), by_size());
    const GroupRank other{1 - both->rank().value};
    std::vector<float> small(2, 1);
    std::vector<float> large(1000, 1);
    std::vector<float> received(1000);
    const Elements many{1000};
    const std::vector<CommCall> calls{mixed_sum(small),
                                      {.kind = CommKind::send,
                                       .dtype = DType::fp32,
                                       .input_buffer = large.data(),
                                       .input = many,
                                       .peer = other},
                                      {.kind = CommKind::recv,
                                       .dtype = DType::fp32,
                                       .output_buffer = received.data(),
                                       .output = many,
                                       .peer = other}};
    both->start_group(calls)->wait();
    EXPECT_EQ(small, std::vector<float>(2, 2));
    EXPECT_EQ(received, large);
  });
}

std::string mixed_error(std::string_view row) {
  std::string error;
  std::atomic<int> calls = 0;
  run_thread_ranks(1, [&](std::unique_ptr<Communicator> world) {
    const TransportTable table =
        *parse_transport_table("op,min_bytes,max_bytes,ranks,transport,algorithm\n" + std::string(row));
    const auto both = mixed(std::make_unique<CountedCommunicator>(std::move(world), calls), "threads", table);
    error = both ? "" : both.error().message;
  });
  return error;
}

TEST(Mixed, NamesTheTransportsThatThereAre) {
  EXPECT_EQ(mixed_error("all_reduce,0,,,mpi,\n"), "line 2: this job has no transport mpi; it has threads");
}

TEST(Mixed, NamesTheAlgorithmThatThereIsNot) {
  run_thread_ranks(2, [](std::unique_ptr<Communicator> world) {
    TransportTable table;
    table.entries = {{.kind = CommKind::all_reduce, .transport = "threads", .algorithm = "magic"}};
    const auto both = mixed(std::move(world), "threads", table);
    ASSERT_FALSE(both);
    EXPECT_EQ(both.error().message, "entry 1: this transport has no algorithm magic of all_reduce to choose");
  });
}

/// A call that moved its data at known times, over a communicator whose calls move, or do not.
class TimedCommunicator final : public Communicator {
 public:
  TimedCommunicator(std::unique_ptr<Communicator> below, MovedTimes moved, bool makes_progress)
      : below_(std::move(below)), moved_(moved), makes_progress_(makes_progress) {}
  const std::vector<Rank>& members() const override { return below_->members(); }
  GroupRank rank() const override { return below_->rank(); }
  bool makes_progress() const override { return makes_progress_; }
  bool starting_pays() const override { return makes_progress_; }
  std::unique_ptr<Work> start(const CommCall& /*call*/) override {
    return std::make_unique<TimedWork>(moved_);
  }
  std::unique_ptr<Communicator> split(std::int64_t color, std::int64_t key) override {
    return below_->split(color, key);
  }
  void abort(std::string_view reason) override { below_->abort(reason); }

 private:
  class TimedWork final : public Work {
   public:
    explicit TimedWork(MovedTimes moved) : moved_(moved) {}
    void wait() override {}
    bool is_complete() override { return true; }
    std::optional<MovedTimes> moved() const override { return moved_; }

   private:
    MovedTimes moved_;
  };
  std::unique_ptr<Communicator> below_;
  MovedTimes moved_;
  bool makes_progress_;
};

TEST(Mixed, AnswersForAllOfItsTransports) {
  run_thread_ranks(1, [](std::unique_ptr<Communicator> world) {
    std::vector<NamedTransport> transports;
    auto others =
        std::make_unique<TimedCommunicator>(world->split(0, world->rank().value), MovedTimes{15, 40}, false);
    transports.push_back(
        {"threads", std::make_unique<TimedCommunicator>(std::move(world), MovedTimes{20, 30}, true)});
    transports.push_back({"others", std::move(others)});
    const auto both = mixed(std::move(transports), by_size());
    ASSERT_TRUE(both);
    EXPECT_FALSE((*both)->makes_progress());  // those of others do not
    EXPECT_TRUE((*both)->starting_pays());    // for those of the first one
    std::vector<float> small(2, 1);
    std::vector<float> large(1000, 1);
    const std::vector<CommCall> calls{mixed_sum(small), mixed_sum(large)};
    const std::unique_ptr<Work> work = (*both)->start_group(calls);
    work->wait();
    ASSERT_TRUE(work->moved());
    EXPECT_EQ(work->moved()->started_ns, 15);
    EXPECT_EQ(work->moved()->finished_ns, 40);
  });
}

TEST(Mixed, TakesTheLibrarysChoiceWhereAPartHasNoSuchAlgorithm) {
  std::atomic<int> calls = 0;
  std::vector<std::string> warnings;  // of the first rank alone
  run_thread_ranks(4, [&](std::unique_ptr<Communicator> world) {
    TransportTable table;
    table.entries = {{.kind = CommKind::all_reduce, .transport = "threads", .algorithm = "ring"}};
    const std::int64_t place = world->rank().value;
    const auto both = mixed(std::make_unique<CountedCommunicator>(std::move(world), calls), "threads", table,
                            [&](const std::string& text) { warnings.push_back(text); });
    ASSERT_TRUE(both);
    for (int time = 0; time < 2; ++time) {
      const std::unique_ptr<Communicator> three = (*both)->split(place < 3 ? 0 : -1, place);
      if (three != nullptr) {
        std::vector<float> values(3, 1);
        three->run(mixed_sum(values));
        EXPECT_EQ(values, std::vector<float>(3, 3));
      }
    }
  });
  EXPECT_EQ(calls, 2 * 3);  // by the transport's choice
  EXPECT_EQ(warnings, std::vector<std::string>{"entry 1: groups of 3 ranks have no algorithm ring of "
                                               "all_reduce; they take the choice of threads"});
}

TEST(Mixed, MakesACommunicatorForAnAlgorithm) {
  std::atomic<int> calls = 0;
  run_thread_ranks(2, [&](std::unique_ptr<Communicator> world) {
    TransportTable table;
    table.entries = {{.kind = CommKind::all_reduce, .transport = "threads", .algorithm = "ring"}};
    const auto both = mixed(std::make_unique<CountedCommunicator>(std::move(world), calls), "threads", table);
    ASSERT_TRUE(both);
    std::vector<float> values(3, 1);
    (*both)->run(mixed_sum(values));
    EXPECT_EQ(values, std::vector<float>(3, 2));
  });
  EXPECT_EQ(calls, 0);  // the communicator with the algorithm made it
}

}  // namespace
}  // namespace commlens
