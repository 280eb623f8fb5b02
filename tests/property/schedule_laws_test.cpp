// Exports can be simulated: exports to GOAL and Chakra of possible histories, and of plans.
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "commlens/formats/chakra/export.hpp"
#include "commlens/formats/goal/export.hpp"
#include "commlens/frameworks/frameworks.hpp"
#include "commlens/frameworks/planner.hpp"
#include "commlens/model/job.hpp"
#include "commlens/trace/test_support.hpp"
#include "tests/simulators/chakra_player.hpp"
#include "tests/simulators/goal_player.hpp"

namespace commlens {
namespace {

using std::chrono::nanoseconds;

std::string schedule_text(const Trace& trace) {
  std::string text;
  const Result<void> written =
      formats::goal::write(trace, {}, [&](std::string_view block) { text += block; });
  return written ? text : written.error().message;
}

/// Whether receives may be waited for later than in the trace; without times, the time of the wait is not
/// known.
enum class Waits : std::uint8_t { as_recorded, may_be_later };

void expect_both_complete(const Trace& trace, Waits waits) {
  const std::string goal = schedule_text(trace);
  for (const std::int64_t eager : {std::int64_t{1} << 40, std::int64_t{0}}) {
    const test::PlayedGoal played = test::play_goal(goal, {.eager = eager});
    ASSERT_TRUE(played.is_complete()) << "eager up to " << eager << ": " << played.text() << "\n" << goal;
  }
  EXPECT_TRUE(waits == Waits::may_be_later || goal.find("waited for later") == std::string::npos);
  const test_support::ScratchDirectory directory;
  ASSERT_TRUE(formats::chakra::write(trace, {}, directory / "."));
  const test::PlayedChakra played = test::play_chakra(directory / ".");
  ASSERT_TRUE(played.is_complete()) << played.text() << "\n" << goal;
}

/// A possible history: messages that arrive after they were sent, in any order, at receives that were posted
/// before or after; collectives that no rank leaves before all have arrived; any of them concurrently. Each
/// rank has its own clock.
class History {
 public:
  explicit History(std::uint64_t seed) : random_(seed) {}

  Trace make() {
    const std::int64_t ranks = between(2, 5);
    calls_.resize(static_cast<std::size_t>(ranks));
    for (std::int64_t message = between(0, 40); message > 0; --message) {
      add_message(between(0, ranks - 1), between(0, ranks - 1));
    }
    for (std::int64_t group = between(0, 3); group > 0; --group) {
      add_collectives(random_group(ranks));
    }
    for (std::size_t rank = 0; rank < calls_.size(); ++rank) {
      add_stream(Rank{static_cast<std::int64_t>(rank)});
    }
    return std::move(trace_);
  }

 private:
  struct Call {
    CommOp op;
    std::int64_t start = 0;
    std::int64_t end = 0;
  };

  std::int64_t between(std::int64_t lowest, std::int64_t highest) {
    return std::uniform_int_distribution<std::int64_t>(lowest, highest)(random_);
  }
  std::int64_t moment() { return between(0, 1'000'000); }
  void add(std::int64_t rank, CommOp op, std::int64_t start, std::int64_t end) {
    op.dtype = DType::uint8;
    calls_[static_cast<std::size_t>(rank)].push_back({op, start, end});
  }

  /// Few sizes, so that many messages of a pair have the same.
  void add_message(std::int64_t from, std::int64_t to) {
    const GroupId pair = trace_.groups.intern({Rank{from}, Rank{to}}, Axis::unknown, CommunicatorId{1});
    const Elements bytes{between(0, 3)};
    const std::int64_t sent = moment();
    const std::int64_t posted = moment();
    add(from, {.kind = CommKind::send, .group = pair, .input = bytes}, sent, sent + between(1, 300'000));
    add(to, {.kind = CommKind::recv, .group = pair, .output = bytes}, posted,
        std::max(sent, posted) + between(1, 300'000));
  }

  /// Some of the ranks, in any order.
  std::vector<Rank> random_group(std::int64_t ranks) {
    std::vector<Rank> members;
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      members.push_back(Rank{rank});
    }
    std::shuffle(members.begin(), members.end(), random_);
    members.resize(static_cast<std::size_t>(between(1, ranks)));
    return members;
  }

  /// All members call them in the same order, the only requirement of MPI.
  void add_collectives(const std::vector<Rank>& members) {
    const auto calls = static_cast<std::size_t>(between(1, 5));
    const GroupId group = trace_.groups.intern(members, Axis::unknown, CommunicatorId{++communicators_});
    std::map<Rank, std::vector<std::int64_t>> starts;
    for (const Rank member : members) {
      for (std::size_t call = 0; call < calls; ++call) {
        starts[member].push_back(moment());
      }
      std::sort(starts[member].begin(), starts[member].end());
    }
    for (std::size_t call = 0; call < calls; ++call) {
      CommOp op{.kind = static_cast<CommKind>(between(0, 5)), .group = group};
      const Elements shard{between(0, 2)};
      const Elements whole{shard.value * static_cast<std::int64_t>(members.size())};
      op.input = op.kind == CommKind::all_gather ? shard : whole;
      op.output = op.kind == CommKind::reduce_scatter ? shard : whole;
      if (has_root(op.kind)) {
        op.root = GroupRank{between(0, static_cast<std::int64_t>(members.size()) - 1)};
      }
      std::int64_t last = 0;
      for (const Rank member : members) {
        last = std::max(last, starts[member][call]);
      }
      for (const Rank member : members) {
        add(member.value, op, starts[member][call], last + between(1, 300'000));
      }
    }
  }

  void add_stream(Rank rank) {
    std::vector<Call>& calls = calls_[static_cast<std::size_t>(rank.value)];
    std::stable_sort(calls.begin(), calls.end(),
                     [](const Call& a, const Call& b) { return a.start < b.start; });
    const nanoseconds zero(between(-1'000'000, 1'000'000));  // of the rank's clock
    RankStream stream{{rank, rank}, {}, {}, {}};
    for (const Call& call : calls) {
      stream.events.push_back({trace_.intern(call.op), 0, k_no_micro_batch});
      stream.times.push_back(
          {zero + nanoseconds(call.start), zero + nanoseconds(call.start), zero + nanoseconds(call.end)});
    }
    trace_.streams.push_back(std::move(stream));
  }

  std::mt19937_64 random_;
  Trace trace_;
  std::uint64_t communicators_ = 1;
  std::vector<std::vector<Call>> calls_;
};

TEST(ScheduleLaws, WhateverHasHappenedCanBePlayedAgain) {
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    SCOPED_TRACE(seed);
    expect_both_complete(History(seed).make(), Waits::as_recorded);
    if (testing::Test::HasFatalFailure()) {
      return;
    }
  }
}

/// A small GPT with eight micro-batches and the given layout and schedule.
Trace planned(const char* framework, const ParallelLayout& layout, Schedule schedule) {
  Job job;
  job.framework = framework;
  job.model.name = "small";
  job.model.layers = 8;
  job.model.hidden = 64;
  job.model.ffn_hidden = 256;
  job.model.heads = job.model.kv_heads = 4;
  job.model.head_dim = 16;
  job.model.sequence = job.model.max_positions = 32;
  job.model.vocab = job.model.raw_vocab = 128;
  job.train.micro_batch = 1;
  job.train.micro_batches = 8;
  job.train.dtype = DType::bf16;
  job.train.schedule = schedule;
  job.layout = layout;
  const Result<Job> valid = validated(job);
  const Result<Plan> plan = valid ? make_plan(*valid) : tl::unexpected(valid.error());
  EXPECT_TRUE(plan) << (plan ? "" : plan.error().message);
  return plan ? plan->trace(2) : Trace();
}

TEST(ScheduleLaws, PlansOfPipelinesCanBePlayed) {
  const ParallelLayout deep{.dp = 1, .tp = 2, .pp = 4};
  const ParallelLayout wide{.dp = 2, .tp = 1, .pp = 2};
  const ParallelLayout chunks{.dp = 2, .tp = 1, .pp = 4, .virtual_stages = 2};
  for (const auto& [framework, layout, schedule] :
       {std::tuple("commlens", deep, Schedule::gpipe), std::tuple("commlens", deep, Schedule::one_f_one_b),
        std::tuple("commlens", chunks, Schedule::interleaved),
        std::tuple("megatron", deep, Schedule::one_f_one_b),
        std::tuple("megatron", chunks, Schedule::interleaved),
        std::tuple("neox", wide, Schedule::one_f_one_b)}) {
    SCOPED_TRACE(std::string(framework));
    const Trace trace = planned(framework, layout, schedule);
    ASSERT_GT(trace.ranks(), 1);
    expect_both_complete(trace, Waits::may_be_later);
  }
}

}  // namespace
}  // namespace commlens
