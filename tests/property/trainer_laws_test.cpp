// Laws that the predictions of our own trainer keep, on random products of its options.
#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "commlens/comm/volume.hpp"
#include "commlens/frameworks/commlens/flat_units.hpp"
#include "commlens/frameworks/commlens/options.hpp"
#include "commlens/frameworks/frameworks.hpp"
#include "commlens/frameworks/planner.hpp"
#include "commlens/model/job.hpp"
#include "commlens/model/parameters.hpp"

namespace commlens {
namespace {

/// Any product of options, possible or not.
Job any_job() {
  Job job;
  job.framework = "commlens";
  ModelConfig& model = job.model;
  model.name = "random";
  model.heads = 4;
  model.hidden = 4 * *rc::gen::inRange<std::int64_t>(1, 8);
  model.layers = *rc::gen::inRange<std::int64_t>(1, 9);
  model.sequence = 4 * *rc::gen::inRange<std::int64_t>(1, 5);
  model.vocab = 4 * *rc::gen::inRange<std::int64_t>(1, 40);
  model.positions = *rc::gen::element(Positions::learned, Positions::rotary);
  model.tied_embeddings = *rc::gen::arbitrary<bool>();
  model.parallel_residual = *rc::gen::arbitrary<bool>();
  job.train.micro_batch = *rc::gen::inRange<std::int64_t>(1, 4);
  job.train.micro_batches = *rc::gen::inRange<std::int64_t>(1, 7);
  job.train.dtype = *rc::gen::element(DType::fp32, DType::bf16);
  job.train.recompute = *rc::gen::element(Recompute::none, Recompute::selective, Recompute::full);
  job.train.schedule = *rc::gen::element(Schedule::gpipe, Schedule::one_f_one_b);
  job.train.zero_stage = *rc::gen::inRange(0, 4);
  job.train.gradient_clipping = *rc::gen::element(0.0, 1.0);
  job.layout.dp = *rc::gen::inRange<std::int64_t>(1, 7);
  job.layout.tp = *rc::gen::element<std::int64_t>(1, 2, 4);
  job.layout.pp = *rc::gen::inRange<std::int64_t>(1, 5);
  job.layout.virtual_stages = *rc::gen::element<std::int64_t>(1, 1, 2);
  job.layout.sequence_parallel = *rc::gen::arbitrary<bool>();
  trainer::Options& options = trainer::options(job);
  options.bucket = Bytes{*rc::gen::inRange<std::int64_t>(1, 20'000)};
  job.train.persistence_threshold = *rc::gen::inRange<std::int64_t>(0, 2000);
  options.all_reduce_gradients = *rc::gen::arbitrary<bool>();
  job.train.hpz = *rc::gen::element<std::int64_t>(1, 2, 3);
  job.train.quantized_weights = *rc::gen::arbitrary<bool>();
  job.train.quantized_gradients = *rc::gen::arbitrary<bool>();
  job.train.partition_activations = *rc::gen::arbitrary<bool>();
  return job;
}

/// The same without options that the rules refuse.
Job possible_job() {
  Job job = any_job();
  trainer::Options& options = trainer::options(job);
  const bool is_sharded = job.train.zero_stage == 3;
  options.all_reduce_gradients =
      options.all_reduce_gradients && (job.train.zero_stage == 1 || job.train.zero_stage == 2);
  job.train.quantized_weights = job.train.quantized_weights && is_sharded;
  job.train.quantized_gradients = job.train.quantized_gradients && is_sharded;
  job.train.hpz = is_sharded && job.layout.dp % job.train.hpz == 0 ? job.train.hpz : 1;
  job.train.partition_activations = job.train.partition_activations && job.layout.tp > 1 &&
                                    !job.layout.sequence_parallel && job.train.recompute == Recompute::full;
  if (job.layout.pp == 1) {
    job.layout.virtual_stages = 1;
  }
  const std::int64_t parts = job.layout.pp * job.layout.virtual_stages;
  if (job.layout.virtual_stages > 1) {
    job.model.layers = parts * *rc::gen::inRange<std::int64_t>(1, 3);
    job.train.micro_batches = job.layout.pp * *rc::gen::inRange<std::int64_t>(1, 4);
  }
  job.model.layers = std::max(job.model.layers, parts);
  const Result<Job> valid = validated(job);
  RC_ASSERT(valid.has_value());
  return *valid;
}

TEST(TrainerLaws, EveryProductOfOptionsIsPlannedOrRefusedByName) {
  int planned = 0;
  int refused = 0;
  ASSERT_TRUE(rc::check([&] {
    const Result<Job> job = validated(any_job());
    if (!job) {
      RC_ASSERT(!job.error().message.empty());
      return;
    }
    const Result<Plan> plan = make_plan(*job);
    if (plan) {
      ++planned;
    } else {
      ++refused;
      RC_ASSERT(plan.error().message.find("--") != std::string::npos ||
                plan.error().message.find("interleaved") != std::string::npos);
    }
  }));
  // The sanitizer builds draw 20 jobs, of which any number may be no valid job at all.
  EXPECT_GT(planned + refused, 0);
}

TEST(TrainerLaws, WhatThePlanAcceptsIsWhatIsPossible) {
  ASSERT_TRUE(rc::check([] {
    const Result<Plan> plan = make_plan(possible_job());
    RC_ASSERT(plan.has_value());
    RC_ASSERT(plan->unverified.empty());
  }));
}

struct Call {
  CommOp op;
  std::vector<Rank> members;
};

/// Calls of an iteration, rank by rank.
std::vector<std::vector<Call>> calls_of(const Job& job) {
  const Trace trace = make_plan(job).value().trace_of({0});
  std::vector<std::vector<Call>> calls(static_cast<std::size_t>(job.layout.mesh().ranks()));
  for (const RankStream& stream : trace.streams) {
    for (std::int64_t rank = stream.ranks.first.value; rank <= stream.ranks.last.value; ++rank) {
      for (const CommEvent& event : stream.events) {
        const CommOp& op = trace.op(event.op);
        calls[static_cast<std::size_t>(rank)].push_back({op, trace.groups.members(op.group, Rank{rank})});
      }
    }
  }
  return calls;
}

/// The calls of all ranks, one rank after the other.
std::vector<Call> all_calls_of(const Job& job) {
  std::vector<Call> all;
  for (const std::vector<Call>& rank : calls_of(job)) {
    all.insert(all.end(), rank.begin(), rank.end());
  }
  return all;
}

TEST(TrainerLaws, NoCallIsMadeOnOneRank) {
  ASSERT_TRUE(rc::check([] {
    for (const Call& call : all_calls_of(possible_job())) {
      RC_ASSERT(call.members.size() > 1U);
      RC_ASSERT(message_bytes(call.op).value + call.op.output.value > 0);
    }
  }));
}

/// Tag and elements of the messages from one rank to another, in the order of the calls.
using Channels = std::map<std::pair<Rank, Rank>, std::vector<std::pair<TagId, std::int64_t>>>;

/// Activations and gradients have separate groups: their orders are compared separately.
Channels sorted_by_tag(Channels channels) {
  for (auto& [pair, messages] : channels) {
    std::stable_sort(messages.begin(), messages.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
  }
  return channels;
}

TEST(TrainerLaws, WhatIsSentIsReceivedInTheSameOrder) {
  ASSERT_TRUE(rc::check([] {
    Channels sent;
    Channels received;
    for (const Call& call : all_calls_of(possible_job())) {
      const std::pair<Rank, Rank> pair{call.members.front(), call.members.back()};
      if (call.op.kind == CommKind::send) {
        sent[pair].emplace_back(call.op.tag, call.op.input.value);
      } else if (call.op.kind == CommKind::recv) {
        received[pair].emplace_back(call.op.tag, call.op.output.value);
      }
    }
    RC_ASSERT(sorted_by_tag(std::move(sent)) == sorted_by_tag(std::move(received)));
  }));
}

using Sequence = std::vector<std::tuple<CommKind, DType, std::int64_t, std::int64_t>>;

/// By group and rank, in the order of the calls.
std::map<std::vector<Rank>, std::map<std::size_t, Sequence>> collectives_of(
    const std::vector<std::vector<Call>>& calls) {
  std::map<std::vector<Rank>, std::map<std::size_t, Sequence>> groups;
  for (std::size_t rank = 0; rank < calls.size(); ++rank) {
    for (const Call& call : calls[rank]) {
      if (!is_point_to_point(call.op.kind)) {
        groups[call.members][rank].emplace_back(call.op.kind, call.op.dtype, call.op.input.value,
                                                call.op.output.value);
      }
    }
  }
  return groups;
}

TEST(TrainerLaws, EveryMemberOfAGroupMakesTheSameCallsInTheSameOrder) {
  ASSERT_TRUE(rc::check([] {
    for (const auto& [members, sequences] : collectives_of(calls_of(possible_job()))) {
      RC_ASSERT(sequences.size() == members.size());
      for (const auto& [rank, sequence] : sequences) {
        RC_ASSERT(sequence == sequences.begin()->second);
      }
    }
  }));
}

/// Elements of one rank's calls that a rule made.
std::map<std::string, std::int64_t> elements_by_rule(const Job& job, std::int64_t stage = 0) {
  const Trace trace = make_plan(job, job.layout.mesh().rank_at({{Axis::pp, stage}})).value().trace_of({0});
  std::map<std::string, std::int64_t> elements;
  for (const CommEvent& event : trace.streams.at(0).events) {
    const CommOp& op = trace.op(event.op);
    elements[trace.rule(op.rule).name] += std::max(op.input, op.output).value;
  }
  return elements;
}

/// Without pipeline and tensor ranks the sums are closed forms of the parameter count P alone: 2 P of stage 0
/// is one all_reduce of P, stages 1 and 2 move M or 1 times P and P again, with d = 1 unpadded.
TEST(TrainerLaws, GradientsAddUpToTheParameters) {
  ASSERT_TRUE(rc::check([] {
    Job job = possible_job();
    job.layout = {.dp = 2 + job.layout.dp};
    job.train.schedule = Schedule::one_f_one_b;
    job.train.partition_activations = trainer::options(job).all_reduce_gradients = false;
    job.train.zero_stage = *rc::gen::inRange(0, 3);
    job.train.hpz = 1;
    job.train.quantized_weights = job.train.quantized_gradients = false;
    job = validated(job).value();
    const std::int64_t parameters = parameter_count(job.model).value;
    std::map<std::string, std::int64_t> elements = elements_by_rule(job);
    if (job.train.zero_stage == 0) {
      RC_ASSERT(elements["commlens.gradient_all_reduce"] == parameters);
      return;
    }
    const std::int64_t updated = elements["commlens.updated_parameter_gather"];
    const std::int64_t units = std::ssize(flat_units(job, held_chunks(job, 0).at(0)));
    const std::int64_t reductions = job.train.zero_stage == 2 ? job.train.micro_batches : 1;
    RC_ASSERT(updated >= parameters);
    RC_ASSERT(updated < parameters + units * job.layout.dp);
    RC_ASSERT(elements["commlens.gradient_reduce_scatter"] == reductions * updated);
  }));
}

/// ZeRO-3 in a pipeline: every stage gathers its sharded units twice and reduces them once per micro-batch.
TEST(TrainerLaws, Zero3MovesThreeTimesTheParametersPerMicroBatch) {
  ASSERT_TRUE(rc::check([] {
    Job job = possible_job();
    job.train.zero_stage = 3;
    job.model.tied_embeddings = false;
    job.layout = {.dp = 1 + job.layout.dp, .pp = 2};
    job.model.layers = 1 + job.model.layers;
    job.train.schedule = Schedule::one_f_one_b;
    trainer::options(job) = {};
    job.train = {.micro_batch = job.train.micro_batch,
                 .micro_batches = job.train.micro_batches,
                 .dtype = job.train.dtype,
                 .recompute = job.train.recompute,
                 .zero_stage = 3,
                 .persistence_threshold = 0,
                 .gradient_clipping = job.train.gradient_clipping};
    job = validated(job).value();
    const std::int64_t stage = *rc::gen::inRange<std::int64_t>(0, 2);
    std::int64_t padded = 0;
    for (const FlatUnit& unit : flat_units(job, held_chunks(job, stage).at(0))) {
      padded += unit.padded;
    }
    std::map<std::string, std::int64_t> elements = elements_by_rule(job, stage);
    RC_ASSERT(elements["commlens.parameter_gather"] == 2 * job.train.micro_batches * padded);
    RC_ASSERT(elements["commlens.gradient_reduce_scatter"] == job.train.micro_batches * padded);
    RC_ASSERT(elements["commlens.updated_parameter_gather"] == 0);
  }));
}

/// Tensor parallelism without sequence parallelism: 2 L + 1 activations forward and as many backward per
/// micro-batch, L less with a parallel residual, and the forward ones of the blocks again when they are
/// recomputed; three values per token for the loss.
TEST(TrainerLaws, ActivationsAddUpToTheClosedForms) {
  ASSERT_TRUE(rc::check([] {
    Job job = possible_job();
    job.layout = {.dp = 1, .tp = *rc::gen::element<std::int64_t>(2, 4)};
    job.train.schedule = Schedule::one_f_one_b;
    trainer::options(job) = {};
    job.train.zero_stage = 0;
    job.train.hpz = 1;
    job.train.quantized_weights = job.train.quantized_gradients = job.train.partition_activations = false;
    job = validated(job).value();
    const std::int64_t tokens = job.train.micro_batch * job.model.sequence;
    const std::int64_t in_forward = (job.model.parallel_residual ? 1 : 2) * job.model.layers;
    const std::int64_t passes = job.train.recompute == Recompute::full ? 2 : 1;
    std::map<std::string, std::int64_t> elements = elements_by_rule(job);
    const std::int64_t activations = job.train.micro_batches * tokens * job.model.hidden;
    RC_ASSERT(elements["commlens.split_output"] == (1 + passes * in_forward) * activations);
    RC_ASSERT(elements["commlens.split_input_gradient"] == (1 + 2 * job.model.layers) * activations);
    RC_ASSERT(elements["commlens.vocabulary_parallel_loss"] == 3 * job.train.micro_batches * tokens);
  }));
}

/// A degree of one adds nothing: the other axes' calls are unchanged.
TEST(TrainerLaws, DataRanksAddOnlyDataParallelCalls) {
  ASSERT_TRUE(rc::check([] {
    Job job = possible_job();
    job.train.zero_stage = 0;
    job.train.hpz = 1;
    job.train.quantized_weights = job.train.quantized_gradients = trainer::options(job).all_reduce_gradients =
        false;
    const auto without_data_parallel = [](Job at, std::int64_t data) {
      at.layout.dp = data;
      at.layout.ranks = 0;
      std::map<std::string, std::int64_t> elements = elements_by_rule(validated(at).value());
      elements.erase("commlens.gradient_all_reduce");
      elements.erase("commlens.loss");
      return elements;
    };
    RC_ASSERT(without_data_parallel(job, 1) == without_data_parallel(job, 3));
  }));
}

void check_units(const Job& job, const HeldChunk& chunk) {
  const std::vector<FlatUnit> units = flat_units(job, chunk);
  std::vector<int> times(chunk.parameters.size(), 0);
  for (const FlatUnit& unit : units) {
    std::int64_t count = 0;
    for (const std::size_t row : unit.parameters) {
      ++times.at(row);
      count += chunk.parameters[row].count;
    }
    RC_ASSERT(!unit.parameters.empty());
    RC_ASSERT(unit.count == count);
    RC_ASSERT(unit.padded % job.layout.dp == 0);
    RC_ASSERT(unit.padded - unit.count < job.layout.dp);
  }
  const std::vector<std::vector<std::size_t>> of_modules = units_of_modules(chunk, units);
  for (std::size_t module = 0; module < chunk.modules.size(); ++module) {
    RC_ASSERT(of_modules.at(module) == units_of(chunk.modules[module], units));
  }
  RC_ASSERT(times == std::vector<int>(chunk.parameters.size(), 1));
}

/// Every element of every unit is held once: units are the parameters of the chunk, each once.
TEST(TrainerLaws, UnitsHoldEveryParameterOnce) {
  ASSERT_TRUE(rc::check([] {
    const Job job = possible_job();
    for (std::int64_t stage = 0; stage < job.layout.pp; ++stage) {
      for (const HeldChunk& chunk : held_chunks(job, stage)) {
        check_units(job, chunk);
      }
    }
  }));
}

}  // namespace
}  // namespace commlens
