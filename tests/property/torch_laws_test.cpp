// Laws of what PyTorch's own parallel modules send (docs/frameworks/torch.md).
#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "commlens/base/units.hpp"
#include "commlens/frameworks/planner.hpp"
#include "commlens/frameworks/torch/modules.hpp"
#include "commlens/frameworks/torch/schedules.hpp"
#include "tests/property/torch_jobs.hpp"

namespace commlens {
namespace {

using pytorch::PipelineAction;
using pytorch::PipelineSchedule;
using pytorch::PipelineShape;

Trace torch_trace(Job job) { return make_plan(validated(std::move(job)).value()).value().trace(2); }

/// A call but for its place in the order: rank, iteration, kind, type, sizes, reduction and members.
using RankCall = std::tuple<std::int64_t, Iteration, CommKind, DType, std::int64_t, std::int64_t, Reduction,
                            std::vector<Rank>>;
using CallCounts = std::map<RankCall, int>;

CallCounts call_counts(const Trace& trace) {
  CallCounts calls;
  for (const RankStream& stream : trace.streams) {
    for (const Rank rank : stream.ranks) {
      for (const CommEvent& event : stream.events) {
        const CommOp& op = trace.op(event.op);
        ++calls[{rank.value, event.iteration, op.kind, op.dtype, op.input.value, op.output.value,
                 op.reduction, trace.groups.members(op.group, rank)}];
      }
    }
  }
  return calls;
}

TEST(TorchLaws, AnAxisOfOneRankAddsNothing) {
  ASSERT_TRUE(rc::check([] {
    Job job = random_fsdp_job();
    const CallCounts alone = call_counts(torch_trace(job));
    job.framework = *rc::gen::element<std::string>("torch-tp", "torch-pipeline", "torch-ddp");
    pytorch::Options& own = pytorch::options(job);
    own.tensor = {.loss_parallel = *rc::gen::arbitrary<bool>(),
                  .init_from_rank0 = *rc::gen::arbitrary<bool>()};
    own.ring = *rc::gen::element(pytorch::RingMethod::all_gather, pytorch::RingMethod::all_to_all);
    set_schedule(job, *rc::gen::element(PipelineSchedule::gpipe, PipelineSchedule::zbv_zero_bubble));
    RC_ASSERT(call_counts(torch_trace(job)) == alone);
  }));
}

/// What 2.15 sends to groups of one is nothing, 2.9 reduces, 2.6 gathers too (Behaviour::alone_shard).
TEST(TorchLaws, AShardOfOneRankSendsWhatTheReleaseDoes) {
  ASSERT_TRUE(rc::check([] {
    Job job = random_fsdp_job();
    job.layout.dp = 1;
    pytorch::options(job).data_shard = 1;
    const auto kinds = [&](const char* version) {
      job.framework_version = version;
      std::map<CommKind, int> counts;
      for (const auto& [call, count] : call_counts(torch_trace(job))) {
        counts[std::get<CommKind>(call)] += count;
      }
      return counts;
    };
    RC_ASSERT(kinds("2.15.0").empty());
    const auto reduces = kinds("2.9.1");
    RC_ASSERT(reduces.size() == 1U && reduces.contains(CommKind::reduce_scatter));
    const auto gathers = kinds("2.6.0");
    RC_ASSERT(gathers.size() == 2U && gathers.contains(CommKind::all_gather));
    RC_ASSERT(gathers.at(CommKind::reduce_scatter) == reduces.at(CommKind::reduce_scatter));
  }));
}

TEST(TorchLaws, TheOrderOfUnitsChangesNothing) {
  ASSERT_TRUE(rc::check([] {
    Job job = random_fsdp_job();
    const CallCounts before = call_counts(torch_trace(job));
    std::vector<pytorch::Unit>& units = pytorch::options(job).fsdp.units;
    std::rotate(units.begin(), units.begin() + *rc::gen::inRange<std::ptrdiff_t>(0, 4) % std::ssize(units),
                units.end());
    RC_ASSERT(call_counts(torch_trace(job)) == before);
  }));
}

/// Of a llama tree, without the token embedding, the projections of queries and the norms where these are
/// frozen; the rows of each matrix, and each norm, are padded to a multiple.
std::int64_t padded_elements(const ModelConfig& model, std::int64_t multiple, bool has_frozen) {
  const auto padded = [&](std::int64_t rows, std::int64_t row) { return round_up(rows, multiple) * row; };
  const std::int64_t queries = model.heads * model.head_dim;
  const std::int64_t keys = model.kv_heads * model.head_dim;
  const std::int64_t block = 2 * padded(keys, model.hidden) + padded(model.hidden, queries) +
                             2 * padded(model.ffn_hidden, model.hidden) +
                             padded(model.hidden, model.ffn_hidden);
  const std::int64_t of_frozen_block = padded(queries, model.hidden) + 2 * padded(model.hidden, 1);
  const std::int64_t table = padded(model.vocab, model.hidden);
  const std::int64_t trained = model.layers * block + table;
  return has_frozen ? trained : trained + model.layers * of_frozen_block + padded(model.hidden, 1) + table;
}

/// Every gradient is reduced once, the first dimension of its parameter padded to the ranks of a shard.
TEST(TorchLaws, ReductionsAddUpToThePaddedParametersWithGradients) {
  ASSERT_TRUE(rc::check([] {
    Job job = random_fsdp_job();
    job.train.micro_batches = 1;
    pytorch::Options& own = pytorch::options(job);
    own.data_shard = *rc::gen::inRange<std::int64_t>(2, 6);
    job.layout.dp = own.data_shard * *rc::gen::inRange<std::int64_t>(1, 3);
    job.framework_version = *rc::gen::element<std::string>("2.15.0", "2.12.1", "2.9.1", "2.6.0");
    const bool has_frozen = *rc::gen::arbitrary<bool>();
    if (has_frozen) {
      job.model.frozen = {"tok_embeddings.weight", "*wq.weight", "*norm.weight"};
    }
    const std::int64_t expected = padded_elements(job.model, own.data_shard, has_frozen);
    std::int64_t sum = 0;
    for (const auto& [call, count] : call_counts(torch_trace(job))) {
      const bool is_of_rank_0 = std::get<0>(call) == 0 && std::get<1>(call) == 1;
      sum += is_of_rank_0 && std::get<CommKind>(call) == CommKind::reduce_scatter ? count * std::get<4>(call)
                                                                                  : 0;
    }
    RC_ASSERT(sum == expected);
  }));
}

TEST(TorchLaws, OneReplicaOfAHybridIsFullSharding) {
  ASSERT_TRUE(rc::check([] {
    Job job = random_fsdp_job();
    pytorch::Options& own = pytorch::options(job);
    job.layout.dp = own.data_shard;
    const CallCounts hybrid = call_counts(torch_trace(job));
    own.data_shard = 0;
    RC_ASSERT(call_counts(torch_trace(job)) == hybrid);
  }));
}

TEST(TorchLaws, ShardsOfOneRankAreReplicas) {
  ASSERT_TRUE(rc::check([] {
    Job job = random_fsdp_job();
    pytorch::Options& own = pytorch::options(job);
    own.data_shard = 1;
    const CallCounts shards = call_counts(torch_trace(job));
    own.fsdp.is_replicate = true;
    RC_ASSERT(call_counts(torch_trace(job)) == shards);
  }));
}

bool is_send(const PipelineAction& action) {
  return action.kind == PipelineAction::Kind::send_forward ||
         action.kind == PipelineAction::Kind::send_backward;
}
bool is_receive(const PipelineAction& action) {
  return action.kind == PipelineAction::Kind::receive_forward ||
         action.kind == PipelineAction::Kind::receive_backward;
}

/// Direction, the stage that sends, micro-batch.
using StageMessage = std::tuple<bool, std::int32_t, std::int32_t>;
StageMessage stage_message(const PipelineAction& action) {
  const bool is_forward = action.kind == PipelineAction::Kind::send_forward ||
                          action.kind == PipelineAction::Kind::receive_forward;
  const std::int32_t sender = is_send(action) ? action.stage : action.stage + (is_forward ? -1 : 1);
  return {is_forward, sender, action.micro_batch};
}

/// The messages between each two ranks, as the sender has them and as the receiver has them.
struct Between {
  std::vector<StageMessage> sent;
  std::vector<StageMessage> received;
};
using Pairs = std::map<std::pair<std::int64_t, std::int64_t>, Between>;

Pairs messages_between(const PipelineShape& shape, const std::vector<pytorch::RankActions>& all) {
  Pairs pairs;
  for (std::int64_t rank = 0; rank < shape.ranks; ++rank) {
    for (const PipelineAction& action : all[static_cast<std::size_t>(rank)]) {
      const auto [is_forward, sender, micro_batch] = stage_message(action);
      if (is_send(action)) {
        const std::int64_t peer = shape.rank_of(sender + (is_forward ? 1 : -1));
        pairs[{rank, peer}].sent.push_back(stage_message(action));
      } else if (is_receive(action)) {
        pairs[{shape.rank_of(sender), rank}].received.push_back(stage_message(action));
      }
    }
  }
  return pairs;
}

/// Each micro-batch crosses each border between stages of two ranks once forward and once backward.
std::size_t crossings(const PipelineShape& shape) {
  std::size_t borders = 0;
  for (std::int64_t stage = 0; stage + 1 < shape.stages(); ++stage) {
    borders += shape.rank_of(stage) != shape.rank_of(stage + 1) ? 1 : 0;
  }
  return 2 * borders * static_cast<std::size_t>(shape.micro_batches);
}

class Schedules : public testing::TestWithParam<PipelineSchedule> {};

void expect_messages_match(const PipelineShape& shape, const std::vector<pytorch::RankActions>& all) {
  std::size_t sent = 0;
  for (const auto& [pair, between] : messages_between(shape, all)) {
    if (pair.first == pair.second) {  // a lock step sends to itself
      continue;
    }
    ASSERT_EQ(between.sent, between.received)
        << shape.ranks << " ranks, " << shape.stages_per_rank << " stages each, " << shape.micro_batches
        << " micro-batches, from rank " << pair.first << " to " << pair.second;
    sent += between.sent.size();
  }
  ASSERT_EQ(sent, crossings(shape)) << shape.ranks << ' ' << shape.stages_per_rank << ' '
                                    << shape.micro_batches;
}

TEST_P(Schedules, EverySendHasItsReceiveInTheSameOrder) {
  std::size_t shapes = 0;
  std::size_t in_lock_step = 0;
  for (std::int64_t ranks = 2; ranks <= 8; ++ranks) {
    for (std::int64_t stages = 1; stages <= 4; ++stages) {
      for (std::int64_t micro_batches = 1; micro_batches <= 32; ++micro_batches) {
        const PipelineShape shape{GetParam(), ranks, stages, micro_batches};
        if (!check(shape)) {
          continue;
        }
        ++shapes;
        ASSERT_NO_FATAL_FAILURE(expect_messages_match(shape, runtime_actions(shape, {})));
        if (const auto actions = lock_step_actions(shape)) {
          ++in_lock_step;
          ASSERT_NO_FATAL_FAILURE(expect_messages_match(shape, *actions));
        }
      }
    }
  }
  EXPECT_GT(shapes, 30U);
  if (GetParam() != PipelineSchedule::dual_pipe_v) {  // newer than lock steps
    EXPECT_GT(in_lock_step, shapes / 2);
  }
}

INSTANTIATE_TEST_SUITE_P(OfSeveralStages, Schedules,
                         testing::Values(PipelineSchedule::interleaved_1f1b, PipelineSchedule::looped_bfs,
                                         PipelineSchedule::interleaved_zero_bubble,
                                         PipelineSchedule::zbv_zero_bubble, PipelineSchedule::dual_pipe_v));

/// What the ranks of a pipeline send each other in an iteration, by who sends and who receives.
std::map<std::vector<Rank>, std::pair<int, int>> sent_and_received(const Trace& trace, Iteration iteration) {
  std::map<std::vector<Rank>, std::pair<int, int>> pairs;
  for (const auto& [call, count] : call_counts(trace)) {
    if (std::get<Iteration>(call) == iteration && is_point_to_point(std::get<CommKind>(call))) {
      auto& [sent, received] = pairs[std::get<std::vector<Rank>>(call)];
      (std::get<CommKind>(call) == CommKind::send ? sent : received) += count;
    }
  }
  return pairs;
}

/// GPipe and 1F1B have a writer of their own.
TEST(TorchLaws, EverySendOfASingleStageHasItsReceive) {
  for (const PipelineSchedule schedule : {PipelineSchedule::gpipe, PipelineSchedule::one_f_one_b}) {
    for (std::int64_t ranks = 2; ranks <= 8; ++ranks) {
      for (std::int64_t micro_batches = 1; micro_batches <= 32; ++micro_batches) {
        Job job;
        job.framework = "torch-pipeline";
        job.model = {.family = Family::llama,
                     .layers = ranks,
                     .hidden = 16,
                     .heads = 2,
                     .kv_heads = 2,
                     .head_dim = 8,
                     .ffn_hidden = 24,
                     .sequence = 8,
                     .max_positions = 8,
                     .vocab = 32,
                     .raw_vocab = 32,
                     .gated_mlp = true,
                     .linear_bias = false,
                     .qkv_bias = false,
                     .norm_bias = false};
        job.layout.pp = ranks;
        job.train.micro_batches = micro_batches;
        set_schedule(job, schedule);
        if (!check(PipelineShape{schedule, ranks, 1, micro_batches})) {
          continue;
        }
        const auto pairs = sent_and_received(torch_trace(job), 1);
        ASSERT_EQ(std::ssize(pairs), 2 * (ranks - 1));
        for (const auto& [pair, counts] : pairs) {
          ASSERT_EQ(counts, std::pair(static_cast<int>(micro_batches), static_cast<int>(micro_batches)));
        }
      }
    }
  }
}

}  // namespace
}  // namespace commlens
