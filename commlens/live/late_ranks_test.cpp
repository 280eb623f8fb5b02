// Ranks that make calls on several communicators, one after the other. Calls have 64 to a block, which is
// known when the first call of the one after the next has ended.
#include "commlens/live/late_ranks.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

namespace commlens {
namespace {

constexpr std::int64_t k_ns_of_ms = 1'000'000;
constexpr std::int64_t k_ranks_here = 2;

/// Ranks 0 and 1 are here.
class TwoRanks {
 public:
  TwoRanks() {
    late.arrive(0);
    late.arrive(1);
  }

  /// A communicator, by its channel.
  std::size_t add(const std::vector<Rank>& members) {
    const std::size_t channel = routes_.size();
    const OpId op = tables_.intern(CommOp{
        .kind = CommKind::all_reduce,
        .group = tables_.groups.intern(members, Axis::unknown, CommunicatorId{1 + std::uint64_t{channel}})});
    std::vector<std::uint32_t>& routes = routes_.emplace_back();
    for (std::size_t rank = 0; rank < k_ranks_here; ++rank) {
      routes.push_back(late.route_of(rank, op, channel));
    }
    return channel;
  }

  /// Calls that take so long with the work before each, of which each rank works some.
  void call(std::size_t channel, std::int64_t calls, std::int64_t ms, std::vector<std::int64_t> work_ms) {
    for (std::int64_t call = 0; call < calls; ++call) {
      for (std::size_t rank = 0; rank < k_ranks_here; ++rank) {
        const std::chrono::nanoseconds start((now_ms_ + work_ms[rank]) * k_ns_of_ms);
        const std::chrono::nanoseconds end((now_ms_ + ms) * k_ns_of_ms);
        late.add(rank, routes_[channel][rank], {start, start, end}, k_unknown_iteration, 0);
      }
      now_ms_ += ms;
    }
    late.mark();
  }

  /// Of rank 1.
  std::vector<std::size_t> told() const {
    std::vector<std::size_t> channels;
    for (const SpanningWork& work : late.spanning()) {
      if (work.rank == Rank{1}) {
        channels.push_back(work.channel);
      }
    }
    return channels;
  }
  SpanningWork last_told() const { return late.spanning().back(); }

 private:
  Trace tables_;
  std::vector<std::vector<std::uint32_t>> routes_;
  std::int64_t now_ms_ = 0;

 public:
  LateRanks late{tables_, {Rank{0}, Rank{1}}};
};

using ToldChannels = std::vector<std::size_t>;
const std::vector<Rank> k_whole_job = {Rank{0}, Rank{1}, Rank{2}, Rank{3}};

// 768 calls of 100 ms are 76.8 s; of their 12 blocks 10 are known, up to 64 s. So the first communicator is
// in use until 304 s, the second until 76.8 + 304 = 380.8 s. The third is called each second from 153.6 s on:
// at 253.6 s no block of it is known, at 353.6 s two are, at 553.6 s five.
TEST(LateRanks, TellWhatIsInUse) {
  TwoRanks job;
  const std::size_t first = job.add(k_whole_job);
  const std::size_t second = job.add(k_whole_job);
  job.call(first, 768, 100, {10, 90});
  job.call(second, 768, 100, {10, 90});
  const std::size_t third = job.add(k_whole_job);
  job.call(third, 100, 1000, {500, 500});
  EXPECT_EQ(job.told(), (ToldChannels{first, second}));
  job.call(third, 100, 1000, {500, 500});
  EXPECT_EQ(job.told(), (ToldChannels{second, third}));
  job.call(third, 200, 1000, {500, 500});
  EXPECT_EQ(job.told(), ToldChannels{third});
  EXPECT_EQ(job.last_told().blocks.size(), 5U);
}

// The first is out of use after 304 s. Its last block is known at the first of the new calls, and those of
// before are forgotten: of the blocks 11 to 14, which the 194 calls complete, 14 may get more.
TEST(LateRanks, BeginAnewWhereACommunicatorIsUsedAgain) {
  TwoRanks job;
  const std::size_t first = job.add(k_whole_job);
  const std::size_t second = job.add(k_whole_job);
  job.call(first, 768, 100, {10, 90});
  job.call(second, 400, 1000, {500, 500});
  ASSERT_EQ(job.told(), ToldChannels{second});
  job.call(first, 194, 1000, {500, 500});
  ASSERT_EQ(job.told(), ToldChannels{first});
  const SpanningWork work = job.late.spanning().front();
  EXPECT_EQ(work.begin, 11);
  ASSERT_EQ(work.blocks.size(), 3U);
  EXPECT_EQ(work.blocks.back().end, 14);
}

// A block of 64 calls each 10 s is 640 s, and is told until the next one is.
TEST(LateRanks, TellACommunicatorThatIsSeldomCalled) {
  TwoRanks job;
  const std::size_t world = job.add(k_whole_job);
  const std::size_t pair = job.add({Rank{0}, Rank{1}});
  for (std::int64_t step = 0; step < 64 * 5; ++step) {
    job.call(pair, 10, 900, {100, 100});
    job.call(world, 1, 1000, {500, 500});
    if (step > 2 * 64 + 1) {
      ASSERT_EQ(job.told(), ToldChannels{world}) << step;
    }
  }
}

// The first communicator, where rank 1 works 90 ms of each 100 and rank 0 waits for it, has its last block at
// 70.4 s: it counts until 310.4 s. The second is used from 76.8 s on, each second, and has three blocks at
// 276.8 s, which are too few where another has eleven. Where rank 1 is slow on the first again, that counts.
TEST(LateRanks, AreJudgedByWhatIsInUse) {
  TwoRanks job;
  const std::size_t first = job.add({Rank{0}, Rank{1}});
  const std::size_t second = job.add({Rank{0}, Rank{1}});
  job.call(first, 768, 100, {10, 90});
  EXPECT_EQ(job.late.score(1)->share, 1.0);
  EXPECT_EQ(job.late.score(0)->share, 0.0);
  job.call(second, 200, 1000, {500, 500});
  EXPECT_EQ(job.late.score(1)->share, 1.0);
  job.call(second, 200, 1000, {500, 500});
  EXPECT_EQ(job.late.score(1)->share, 0.0);
  job.call(first, 130, 1000, {100, 900});
  EXPECT_EQ(job.late.score(1)->share, 1.0);
}

// A communicator that is made anew each 100 calls leaves no block that is told.
TEST(LateRanks, AreNotJudgedByCommunicatorsOfBefore) {
  TwoRanks job;
  std::size_t last = 0;
  for (int made = 0; made < 50; ++made) {
    last = job.add(k_whole_job);
    job.call(last, 200, 100, {50, 50});
  }
  EXPECT_EQ(job.told().size(), 2U);
  job.call(job.add({Rank{0}}), 1, 1000, {500, 500});
  job.call(job.add({Rank{0}, Rank{1}}), 300, 1000, {500, 500});
  EXPECT_EQ(job.told(), ToldChannels{});
}

}  // namespace
}  // namespace commlens
