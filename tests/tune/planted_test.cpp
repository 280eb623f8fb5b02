// What tune finds where the truth is planted: a transport whose algorithms differ by the time they take on a
// clock of the test, so that no load of the machine changes it.
#include <chrono>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "commlens/app/tune_rounds.hpp"
#include "commlens/transport/thread_ranks.hpp"

namespace commlens {
namespace {

using std::chrono::microseconds;

/// How long a call takes more, by its algorithm (0: the library's choice).
using Delay = std::function<microseconds(int algorithm, const CommCall& call, std::int64_t ranks)>;

/// The time of one rank, which passes in its calls: as the delay says, and up to 10 % more. It is the same
/// for all ranks, which make the same calls. Calls of one algorithm, group, size and type have numbers of
/// their own: how often ranks exchange their samples depends on the machine, and changes nothing.
struct PlantedClock {
  std::uint64_t seed = 0;
  std::int64_t now_ns = 0;
  std::map<std::tuple<int, std::int64_t, std::int64_t, DType>, std::mt19937_64> random;

  void pass(std::chrono::nanoseconds delay, int algorithm, const CommCall& call, std::int64_t ranks) {
    const std::tuple key(algorithm, ranks, call.input.value, call.dtype);
    constexpr std::uint64_t k_apart = 1000;  // fewer sequences have a clock
    const std::uint64_t own_seed = seed * k_apart + random.size();
    const auto tenths = static_cast<std::int64_t>(random.try_emplace(key, own_seed).first->second() % 1000);
    now_ns += delay.count() + delay.count() * tenths / 10'000;
  }
};

/// Decorates a communicator: it has four algorithms, which differ by their delays.
class PlantedCommunicator final : public Communicator {
 public:
  PlantedCommunicator(std::unique_ptr<Communicator> below, const Delay& delay, PlantedClock& clock,
                      int algorithm = 0)
      : below_(std::move(below)), delay_(delay), clock_(clock), algorithm_(algorithm) {}

  const std::vector<Rank>& members() const override { return below_->members(); }
  GroupRank rank() const override { return below_->rank(); }
  std::unique_ptr<Work> start(const CommCall& call) override { return below_->start(call); }
  void run(const CommCall& call) override {
    if (call.kind == CommKind::all_reduce) {
      clock_.pass(delay_(algorithm_, call, size()), algorithm_, call, size());
    }
    below_->run(call);
  }
  std::unique_ptr<Communicator> split(std::int64_t color, std::int64_t key) override {
    auto part = below_->split(color, key);
    return part == nullptr ? nullptr : std::make_unique<PlantedCommunicator>(std::move(part), delay_, clock_);
  }
  std::vector<std::string> algorithms(CommKind kind) const override {
    return kind == CommKind::all_reduce ? std::vector<std::string>{"1", "2", "3", "4"}
                                        : std::vector<std::string>();
  }
  Result<std::unique_ptr<Communicator>> with_algorithm(CommKind /*kind*/, const std::string& name) override {
    return std::make_unique<PlantedCommunicator>(below_->split(0, rank().value), delay_, clock_,
                                                 std::stoi(name));
  }
  void abort(std::string_view reason) override { below_->abort(reason); }

 private:
  std::unique_ptr<Communicator> below_;
  const Delay& delay_;
  PlantedClock& clock_;
  int algorithm_;
};

constexpr std::int64_t k_kib = 1024;

/// An all_reduce that each of four ranks makes so often in a step.
ModelMessage sum_of(DType dtype, std::int64_t bytes, std::int64_t ranks, double calls) {
  const Elements count{bytes / size_of(dtype)};
  return {.kind = CommKind::all_reduce,
          .dtype = dtype,
          .input = count,
          .output = count,
          .ranks = ranks,
          .calls_of_class = {calls}};
}

ModelMessages messages_of(std::vector<ModelMessage> messages) {
  return {.source = "planted",
          .job_ranks = 4,
          .ranks_of_class = {4},
          .classes = {RankRange{Rank{0}, Rank{3}}},
          .messages = std::move(messages)};
}

TunedMessages tuned(const ModelMessages& messages, const Delay& delay, std::int64_t rounds,
                    std::uint64_t seed, bool by_planted_clock = false) {
  TunedMessages found;
  run_thread_ranks(4, [&](std::unique_ptr<Communicator> world) {
    PlantedClock clock{.seed = seed, .random = {}};
    PlantedCommunicator planted(std::move(world), delay, clock);
    std::function<std::int64_t()> now;
    if (by_planted_clock) {
      now = [&clock] { return clock.now_ns; };
    }
    TunedMessages own = tuned_messages(planted, messages,
                                       {.selection = {.seed = seed, .resamples = 200},
                                        .seed = seed,
                                        .time = std::chrono::seconds(30),
                                        .most_rounds = rounds,
                                        .buffers = Bytes{1 << 20},
                                        .clock = now});
    if (planted.rank() == GroupRank{0}) {
      found = std::move(own);
    }
  });
  return found;
}

TEST(Tune, FindsThePlantedRuleAndNoOther) {
  constexpr microseconds k_usual{3000};
  constexpr microseconds k_faster{2100};
  const Delay delay = [&](int algorithm, const CommCall& call, std::int64_t ranks) {
    const std::int64_t bytes = (call.input * call.dtype).value;
    const bool is_planted = algorithm == 3 && ranks == 4 && bytes == 64 * k_kib;
    // Of 32 KiB it is the faster one for one of two types, which no rule can tell apart.
    const bool is_of_one_type = algorithm == 2 && bytes == 32 * k_kib && call.dtype == DType::fp32;
    return is_planted || is_of_one_type ? k_faster : k_usual;
  };
  const TunedMessages found =
      tuned(messages_of({sum_of(DType::fp32, 64 * k_kib, 4, 5), sum_of(DType::fp32, 64 * k_kib, 2, 1),
                         sum_of(DType::fp32, 16 * k_kib, 4, 1), sum_of(DType::fp32, 32 * k_kib, 4, 1),
                         sum_of(DType::bf16, 32 * k_kib, 4, 1)}),
            delay, 80, 1, true);
  const std::vector<tune::Rule> expected{
      {.kind = CommKind::all_reduce, .ranks = 4, .message = Bytes{64 * k_kib}, .algorithm = "3"}};
  EXPECT_EQ(found.rules(), expected);
  EXPECT_EQ(found.messages.at(3).no_rule, "another element type of this size is not faster with it");
  // Five calls gain 0.9 ms each, of nine that take 3 ms; the medians have 5 % more.
  EXPECT_NEAR(found.step.gain_s.value, 5 * 0.9e-3 * 1.05, 0.5e-3);
  EXPECT_GT(found.step.gain_s.low, 4e-3);
  EXPECT_LT(found.step.gain_s.high, 6e-3);
  EXPECT_NEAR(found.step.default_s, 9 * 3e-3 * 1.05, 0.5e-3);
}

TEST(Tune, FindsNoRuleAmongEqualAlgorithms) {
  const Delay equal = [](int, const CommCall&, std::int64_t) { return microseconds(1000); };
  int with_rules = 0;
  constexpr int k_runs = 20;
  for (std::uint64_t seed = 1; seed <= k_runs; ++seed) {
    with_rules +=
        tuned(messages_of({sum_of(DType::fp32, 8 * k_kib, 4, 1)}), equal, 80, seed, true).rules().empty() ? 0
                                                                                                          : 1;
  }
  EXPECT_LE(with_rules, 1);
}

TEST(Tune, SaysWhatItLeavesOut) {
  const Delay none = [](int, const CommCall&, std::int64_t) { return microseconds(0); };
  ModelMessage large = sum_of(DType::fp32, k_kib, 8, 2);
  ModelMessage message = sum_of(DType::fp32, k_kib, 2, 3);
  message.kind = CommKind::send;
  ModelMessage uneven = sum_of(DType::fp32, k_kib, 4, 1);
  uneven.kind = CommKind::all_gather;  // of which the output is not four times the input
  const TunedMessages found =
      tuned(messages_of({large, message, uneven, sum_of(DType::boolean, k_kib, 4, 1)}), none, 60, 1);
  EXPECT_TRUE(found.messages.empty());
  const std::map<std::string, double> expected{{"groups of 8 ranks, of which the job has 4", 4 * 2},
                                               {"send has no algorithms", 4 * 3},
                                               {"parts of unequal sizes", 4},
                                               {"bool cannot be added", 4}};
  EXPECT_EQ(found.left_out, expected);
}

}  // namespace
}  // namespace commlens
