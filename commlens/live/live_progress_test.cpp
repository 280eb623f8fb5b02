// Numbers that are kept while calls are made are those that are counted afterwards.
#include "commlens/live/live_progress.hpp"

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace commlens {
namespace {

/// A job of some ranks, whose calls are entered and end at random.
class RandomCalls {
 public:
  static constexpr std::int64_t k_ranks = 3;

  explicit RandomCalls(std::uint64_t seed) : random_(seed), ranks_(k_ranks) {
    for (std::int64_t rank = 0; rank < k_ranks; ++rank) {
      states_.push_back({.rank = Rank{rank}, .process = {}, .boot = {}});
    }
  }

  /// A call is entered, or one under way ends.
  void step() {
    const auto rank = static_cast<std::size_t>(random_() % k_ranks);
    One& one = ranks_[rank];
    if (one.numbers.open().empty() || random_() % 3 != 0) {
      enter(Rank{static_cast<std::int64_t>(rank)}, one);
    } else {
      end(Rank{static_cast<std::int64_t>(rank)}, one, random_() % one.numbers.open().size());
    }
  }

  JobProgress live() const {
    std::vector<const LiveNumbers*> numbers;
    for (const One& one : ranks_) {
      numbers.push_back(&one.numbers);
    }
    return progress_.progress(states_, numbers);
  }

  JobProgress counted() const {
    ProgressBuilder builder;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      builder.begin_rank(states_[rank], tables_);
      for (const StatedCall& call : ranks_[rank].calls) {
        builder.add(call);
      }
      builder.end_rank();
    }
    return builder.finish();
  }

 private:
  struct One {
    LiveNumbers numbers;
    std::vector<StatedCall> calls;  // by slot
  };

  OpId collective(std::int64_t elements) {
    return intern(CommKind::all_reduce, {Rank{0}, Rank{1}, Rank{2}}, elements);
  }
  OpId intern(CommKind kind, const std::vector<Rank>& members, std::int64_t elements) {
    return tables_.intern(CommOp{.kind = kind,
                                 .dtype = DType::fp32,
                                 .blocking = random_() % 2 == 0,
                                 .group = tables_.groups.intern(members, Axis::unknown, CommunicatorId{1}),
                                 .input = Elements{elements},
                                 .output = Elements{elements}});
  }

  void enter(Rank rank, One& one) {
    const Rank other{(rank.value + 1) % k_ranks};
    const std::vector<OpId> ops = {collective(random_() % 16 == 0 ? 9 : 8),
                                   intern(CommKind::send, {rank, other}, 8),
                                   intern(CommKind::recv, {other, rank}, 8), intern(CommKind::recv, {}, 8)};
    StatedCall call;
    call.op = ops[random_() % ops.size()];
    call.state = CallState::under_way;
    const LiveNumbers::Place place = progress_.place_of(one.numbers, rank, call.op);
    const std::int64_t number = one.numbers.enter(place);
    one.numbers.open().push_back({one.calls.size(), call, place, number, {}});
    one.calls.push_back(call);
  }

  /// A receive from any source has come from one; some receives are cancelled.
  void end(Rank rank, One& one, std::size_t which) {
    LiveNumbers::Open& call = one.numbers.open()[which];
    StatedCall& counted = one.calls[call.slot];
    const bool is_message = tables_.op(call.call.op).kind == CommKind::recv;
    counted.state = is_message && random_() % 4 == 0 ? CallState::cancelled : CallState::finished;
    if (counted.state == CallState::cancelled) {
      one.numbers.withdraw(call);
    } else {
      if (call.place.part == CallPart::receive_any) {
        counted.op = intern(CommKind::recv, {Rank{(rank.value + 1) % k_ranks}, rank}, 8);
      }
      one.numbers.replace(call, counted.op, progress_.place_of(one.numbers, rank, counted.op));
      one.numbers.set_last(call.slot, counted, call.place, call.number);
    }
    one.numbers.open().erase(one.numbers.open().begin() + static_cast<std::ptrdiff_t>(which));
  }

  std::mt19937_64 random_;
  Trace tables_;
  LiveProgress progress_{tables_};
  std::vector<One> ranks_;
  std::vector<RankState> states_;
};

/// Entered and open calls by what they are, whatever number a channel has.
std::vector<std::string> spelled(const JobProgress& job) {
  std::vector<std::string> lines;
  const auto channel_text = [&](std::size_t which) {
    std::string text = job.channels[which].is_pair ? "pair" : "all";
    for (const Rank member : job.channels[which].members) {
      text += " " + std::to_string(member.value);
    }
    return text;
  };
  for (const RankProgress& rank : job.ranks) {
    const std::string start = "rank " + std::to_string(rank.state.rank.value) + ": ";
    lines.push_back(start + std::to_string(rank.calls));
    for (const auto& [channel, entered] : rank.entered) {
      if (entered > 0) {
        lines.push_back(start + channel_text(channel) + " entered " + std::to_string(entered));
      }
    }
    for (const SeenCall& call : rank.open) {
      const bool has_channel = call.channel != k_no_channel;
      lines.push_back(start + "open " + (has_channel ? channel_text(call.channel) : "any") + " " +
                      std::to_string(call.number));
    }
  }
  for (const CallDifference& difference : job.differences) {
    lines.push_back(channel_text(difference.channel) + " differs at " + std::to_string(difference.number));
  }
  std::sort(lines.begin(), lines.end());
  return lines;
}

TEST(LiveProgress, NumbersCallsAsTheyAreCountedAfterwards) {
  int differing = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    RandomCalls calls(seed);
    for (int step = 0; step < 40; ++step) {  // fewer collectives than are remembered
      calls.step();
      ASSERT_EQ(spelled(calls.live()), spelled(calls.counted())) << "seed=" << seed << " step " << step;
    }
    differing += calls.live().differences.empty() ? 0 : 1;
  }
  EXPECT_GT(differing, 10);
}

}  // namespace
}  // namespace commlens
