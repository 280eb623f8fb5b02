// Laws that every prediction keeps, on random jobs.
#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "commlens/comm/volume.hpp"
#include "commlens/compare/compare.hpp"
#include "commlens/frameworks/deepspeed/options.hpp"
#include "commlens/frameworks/frameworks.hpp"
#include "commlens/frameworks/megatron/options.hpp"
#include "commlens/frameworks/planner.hpp"
#include "commlens/model/flops.hpp"
#include "commlens/model/job.hpp"
#include "commlens/model/parameters.hpp"
#include "commlens/summary/breakdown.hpp"
#include "tests/property/random_jobs.hpp"

namespace commlens {
namespace {

/// Calls see(rank, event) for every call of every rank.
template <typename See>
void for_each_call(const Trace& trace, const See& see) {
  for (const RankStream& stream : trace.streams) {
    for (const Rank rank : stream.ranks) {
      for (const CommEvent& event : stream.events) {
        see(rank, event);
      }
    }
  }
}

using Channel = std::tuple<Iteration, std::int64_t, std::int64_t, std::string, std::int64_t>;

TEST(PlanLaws, WhatIsSentIsReceived) {
  ASSERT_TRUE(rc::check([] {
    const Plan plan = make_plan(valid_small_job()).value();
    const Trace trace = plan.trace(2);
    std::map<Channel, std::int64_t> balance;
    for_each_call(trace, [&](Rank rank, const CommEvent& event) {
      const CommOp& op = trace.op(event.op);
      if (is_point_to_point(op.kind)) {
        const std::vector<Rank> pair = trace.groups.members(op.group, rank);
        // PyTorch 2.9 connects stages with messages that are received in another type than they are sent in.
        const bool is_connection = trace.rule(op.rule).name == "pipeline.connect";
        const Channel channel{event.iteration, pair[0].value, pair[1].value,
                              is_connection ? "" : std::string(name_of(op.dtype)),
                              is_connection ? 0 : message_bytes(op).value};
        balance[channel] += op.kind == CommKind::send ? 1 : -1;
      }
    });
    for (const auto& [channel, count] : balance) {
      RC_ASSERT(count == 0);
    }
  }));
}

using Meeting = std::tuple<Iteration, std::string, std::vector<std::int64_t>, std::int64_t, std::int64_t>;

TEST(PlanLaws, EveryMemberOfAGroupMakesTheSameCalls) {
  ASSERT_TRUE(rc::check([] {
    const Plan plan = make_plan(valid_small_job()).value();
    const Trace trace = plan.trace(2);
    std::map<Meeting, std::map<std::int64_t, std::int64_t>> calls;  // per rank
    for_each_call(trace, [&](Rank rank, const CommEvent& event) {
      const CommOp& op = trace.op(event.op);
      if (is_point_to_point(op.kind)) {
        return;
      }
      std::vector<std::int64_t> members;
      for (const Rank member : trace.groups.members(op.group, rank)) {
        members.push_back(member.value);
      }
      const Meeting meeting{
          event.iteration, std::string(name_of(op.kind)), members,
          op.kind == CommKind::other ? 0 : (op.input * op.dtype).value,  // a scatter: of its root alone
          (op.output * op.dtype).value};
      ++calls[meeting][rank.value];
    });
    for (const auto& [meeting, by_rank] : calls) {
      RC_ASSERT(by_rank.size() == std::get<2>(meeting).size());
      for (const auto& [rank, count] : by_rank) {
        RC_ASSERT(count == by_rank.begin()->second);
      }
    }
  }));
}

/// Calls that frameworks really issue on groups of one rank, although they move nothing
/// (docs/rules.md#calls-on-one-rank): all others disappear at degree 1.
const std::vector<std::string>& issued_on_one_rank() {
  static const std::vector<std::string> rules = {"start.broadcast_parameter",
                                                 "stage0.gradient_all_reduce",
                                                 "stage0.clip_norm",
                                                 "stage0.clip_norm_model_parallel",
                                                 "stage0.overflow_flag_model_parallel",
                                                 "stage0.norm_model_parallel",
                                                 "bf16.norm_model_parallel",
                                                 "zero12.overflow_flag",
                                                 "zero12.norm",
                                                 "zero12.gradient_all_reduce",
                                                 "zero12.gradient_all_reduce_cut_at_partition",
                                                 "neox.broadcast_batch_sizes",
                                                 "neox.broadcast_batch",
                                                 "neox.cross_entropy_max",
                                                 "neox.cross_entropy_target",
                                                 "neox.cross_entropy_sum",
                                                 "neox.total_parameters",
                                                 "neox.data_flags",
                                                 "neox.loss_all_reduce",
                                                 "megatron.cross_entropy_max",
                                                 "megatron.cross_entropy_target",
                                                 "megatron.cross_entropy_sum",
                                                 "megatron.gradient_all_reduce",
                                                 "megatron.gradient_reduce_scatter",
                                                 "megatron.gather_updated_parameters",
                                                 "megatron.gradient_norm",
                                                 "megatron.found_inf",
                                                 "ddp.verify_shapes",
                                                 "ddp.broadcast_states",
                                                 "ddp.broadcast_buffers",
                                                 "ddp.rebuild_buckets",
                                                 "ddp.first_bucket",
                                                 "ddp.bucket",
                                                 "ddp.broadcast_module_states",
                                                 "ddp.first_iteration_all_reduce",
                                                 "ddp.bucket_all_reduce",
                                                 "zero3.broadcast_parameter_again",
                                                 "zero3.start_gather",
                                                 "zero3.persistent_parameter_gather",
                                                 "zero3.trace_check",
                                                 "zero3.gradient_reduce_scatter",
                                                 "zero3.overflow_flag",
                                                 "zero3.norm"};
  return rules;
}

TEST(PlanLaws, OneRankIssuesOnlyTheListedCalls) {
  ASSERT_TRUE(rc::check([] {
    Job job = valid_small_gpt();
    job.layout.dp = job.layout.tp = job.layout.pp = 1;
    job.layout.ranks = 1;
    const Plan plan = make_plan(job).value();
    const Trace trace = plan.trace(2);
    for (const CommEvent& event : trace.streams.at(0).events) {
      const CommOp& op = trace.op(event.op);
      RC_ASSERT(wire_bytes(op.kind, message_bytes(op), trace.groups.size(op.group)) == Bytes{0});
      const std::vector<std::string>& listed = issued_on_one_rank();
      RC_ASSERT(std::find(listed.begin(), listed.end(), trace.rule(op.rule).name) != listed.end());
    }
  }));
}

/// Stages 0-2 reduce every gradient once per reduction: the sums are the parameters of a rank, whatever the
/// buckets.
TEST(PlanLaws, GradientsAddUpToTheParameters) {
  ASSERT_TRUE(rc::check([] {
    Job job = small_job("deepspeed");
    job.train.zero_stage = *rc::gen::inRange(0, 3);
    job.train.dtype = DType::fp32;
    job.model.tied_embeddings = false;
    job = validated(job).value();
    const Trace trace = make_plan(job).value().trace_of({0});
    std::int64_t elements = 0;
    for (const CommEvent& event : trace.streams.at(0).events) {
      const CommOp& op = trace.op(event.op);
      elements +=
          trace.rule(op.rule).name.find("gradient_all_reduce") != std::string::npos ? op.input.value : 0;
    }
    const std::int64_t reductions = job.train.zero_stage == 2 ? job.train.micro_batches : 1;
    RC_ASSERT(elements == reductions * parameter_count(job.model).value);
  }));
}

/// Closed forms of the whole iteration (docs/rules.md): tensor-parallel all_reduces of an activation, and
/// every activation and gradient once per boundary.
TEST(PlanLaws, ActivationsAddUpToTheClosedForms) {
  ASSERT_TRUE(rc::check([] {
    Job job = small_job("neox");
    job.train.dtype = DType::fp16;
    job = validated(job).value();
    const Trace trace = make_plan(job).value().trace_of({1});
    const std::int64_t activation = job.train.micro_batch * job.model.sequence * job.model.hidden;
    std::int64_t all_reduced = 0;
    std::int64_t sent = 0;
    for (const RankStream& stream : trace.streams) {
      for (const CommEvent& event : stream.events) {
        const CommOp& op = trace.op(event.op);
        const std::string& rule = trace.rule(op.rule).name;
        const bool is_tensor = rule.find("tensor_parallel") != std::string::npos ||
                               rule.find("unembedding") != std::string::npos;
        all_reduced += is_tensor ? op.input.value * stream.ranks.count() : 0;
        const bool is_boundary = rule == "pipeline.activation" || rule == "pipeline.gradient";
        sent += is_boundary ? op.input.value * stream.ranks.count() : 0;
      }
    }
    const std::int64_t passes = job.train.recompute == Recompute::full ? 6 : 4;
    const std::int64_t per_replica = (passes * job.model.layers + 2) * activation * job.train.micro_batches;
    RC_ASSERT(all_reduced == (job.layout.tp > 1 ? per_replica * job.layout.dp * job.layout.tp : 0));
    RC_ASSERT(sent == 2 * (job.layout.pp - 1) * activation * job.train.micro_batches * job.layout.dp);
  }));
}

/// A trace of explicit groups, rank by rank, with every rank renamed.
Trace relabelled(const Trace& trace, const std::vector<std::int64_t>& names) {
  Trace result;
  result.streams.resize(names.size());
  const auto new_name = [&](Rank rank) { return Rank{names[static_cast<std::size_t>(rank.value)]}; };
  for (std::int64_t rank = 0; rank < std::ssize(names); ++rank) {
    result.streams[static_cast<std::size_t>(rank)].ranks = {Rank{rank}, Rank{rank}};
  }
  for_each_call(trace, [&](Rank rank, const CommEvent& event) {
    CommOp op = trace.op(event.op);
    std::vector<Rank> members;
    for (const Rank member : trace.groups.members(op.group, rank)) {
      members.push_back(new_name(member));
    }
    op.group = result.groups.intern(members);
    op.rule = {};
    op.tag = {};
    result.streams[static_cast<std::size_t>(new_name(rank).value)].events.push_back(
        {result.intern(op), event.iteration, event.micro_batch});
  });
  return result;
}

/// Numbers of ranks have no meaning: the volume of every kind over all ranks is invariant.
TEST(PlanLaws, RelabellingRanksChangesNothing) {
  ASSERT_TRUE(rc::check([] {
    const Job job = valid_small_job();
    const Trace trace = make_plan(job).value().trace(2);
    std::vector<std::int64_t> names(static_cast<std::size_t>(job.layout.mesh().ranks()));
    std::iota(names.begin(), names.end(), 0);
    const std::vector<std::int64_t> same = names;
    std::shuffle(names.begin(), names.end(), std::mt19937(*rc::gen::arbitrary<unsigned>()));
    using Volume = std::pair<std::int64_t, std::int64_t>;  // calls, wire bytes
    const auto volumes = [](const Trace& of) {
      std::map<std::string, Volume> result;
      for (const BreakdownRow& row : breakdown(of, {})) {
        Volume& volume = result[std::string(name_of(row.kind)) + std::to_string(row.group_size)];
        volume.first += row.calls * row.ranks.count();
        volume.second += row.wire_per_rank.value * row.ranks.count();
      }
      return result;
    };
    RC_ASSERT(volumes(relabelled(trace, names)) == volumes(relabelled(trace, same)));
    RC_ASSERT(compare(relabelled(trace, same), trace, {}).value().equal());
  }));
}

/// A rank's program does not depend on which of its class it is, nor on who else is planned.
TEST(PlanLaws, OneRankAloneIsTheSameAsInTheWholePlan) {
  ASSERT_TRUE(rc::check([] {
    const Job job = valid_small_job();
    const Plan whole = make_plan(job).value();
    const Rank rank{*rc::gen::inRange<std::int64_t>(0, job.layout.mesh().ranks())};
    const Plan alone = make_plan(job, rank).value();
    RC_ASSERT(alone.classes.size() == 1U);
    const Trace all = whole.trace(2);
    const Trace one = alone.trace(2);
    const RankStream* expected = all.stream_of(rank);
    RC_ASSERT(expected != nullptr);
    RC_ASSERT(expected->events.size() == one.streams.at(0).events.size());
    for (std::size_t i = 0; i < expected->events.size(); ++i) {
      const CommOp& a = all.op(expected->events[i].op);
      const CommOp& b = one.op(one.streams[0].events[i].op);
      RC_ASSERT(a.kind == b.kind);
      RC_ASSERT(a.input == b.input);
      RC_ASSERT(all.groups.members(a.group, rank) == one.groups.members(b.group, rank));
    }
  }));
}

/// A job whose computing has a closed form: all frameworks, experts under Megatron.
Job job_that_computes() {
  const std::string framework =
      *rc::gen::element<std::string>("paper", "deepspeed", "neox", "megatron", "torch-ddp", "commlens");
  Job job = small_job(framework);
  job.model.gated_mlp = *rc::gen::arbitrary<bool>();
  const bool is_expert = framework == "megatron" && job.layout.pp == 1 && *rc::gen::arbitrary<bool>();
  if (is_expert) {
    job.model.experts = 4;
    job.model.top_k = *rc::gen::inRange<std::int64_t>(1, 4);
    job.layout.sequence_parallel = job.layout.tp > 1;  // as Megatron wants it
    job.layout.ep = *rc::gen::element<std::int64_t>(1, job.layout.dp % 2 == 0 ? 2 : 1);
    megatron::options(job).moe_dispatcher = *rc::gen::element<std::string>("allgather", "alltoall");
  }
  const bool has_selective = framework == "megatron" || framework == "commlens";
  job.train.recompute = *rc::gen::element(Recompute::none, Recompute::full);
  if (has_selective && *rc::gen::arbitrary<bool>()) {
    job.train.recompute = Recompute::selective;
  }
  return job;
}

/// What PyTorch does not compute again: each layer's last product, of which no gradient needs the result.
double flops_of_early_ends(const Job& job) {
  if (job.framework != "torch-ddp" || job.train.recompute != Recompute::full) {
    return 0;
  }
  const std::int64_t tokens = job.train.micro_batch * job.train.micro_batches * job.model.sequence;
  return 2.0 * static_cast<double>(tokens * job.model.layers * job.model.ffn_hidden * job.model.hidden);
}

/// Flops of the whole iteration, by the closed form of Narayanan et al. (model/flops.hpp) and as the plan's
/// kernels.
TEST(PlanLaws, KernelsAddUpToTheClosedFormOfFlops) {
  ASSERT_TRUE(rc::check([] {
    const Result<Job> job = validated(job_that_computes());
    RC_PRE(job.has_value());
    const Result<Plan> plan = make_plan(*job);
    RC_PRE(plan.has_value());
    for (Iteration iteration = 0; iteration <= plan->steady_iteration(); ++iteration) {
      RC_ASSERT(plan->flops_per_rank(iteration).value + flops_of_early_ends(*job) ==
                iteration_flops_per_rank(*job).value);
    }
    RC_ASSERT(plan->flops_per_rank(k_init_iteration).value == 0);
  }));
}

/// Steps wait for earlier ones of other streams; computing is on its own stream and no call is.
TEST(PlanLaws, StepsWaitForEarlierOnesOfOtherStreams) {
  ASSERT_TRUE(rc::check([] {
    const Plan plan = make_plan(valid_small_job()).value();
    for (const RankClass& ranks : plan.classes) {
      for (const Program& program : ranks.iterations) {
        for (std::size_t at = 0; at < program.steps.size(); ++at) {
          const PlanStep& step = program.steps[at];
          RC_ASSERT((step.kind == PlanStep::Kind::work) == (step.stream == k_compute_stream));
          for (const StepIndex earlier : program.waits_of(step)) {
            RC_ASSERT(earlier < at);
            RC_ASSERT(program.steps[earlier].stream != step.stream);
          }
        }
      }
    }
  }));
}

/// All calls before the last update have ended when it begins, also those of the previous iteration: only
/// sends to another stage may have no waiting step.
TEST(PlanLaws, TheUpdateWaitsForEveryCallBeforeIt) {
  ASSERT_TRUE(rc::check([] {
    const Plan plan = make_plan(valid_small_job()).value();
    const std::vector<Iteration> iterations = {k_init_iteration, 0, plan.steady_iteration() + 1};
    const Trace trace = plan.trace_of(iterations);
    const StepOrder order = plan.order_of(iterations);
    for (std::size_t row = 0; row < order.streams.size(); ++row) {
      const StreamOrder& stream = order.streams[row];
      std::size_t update = stream.steps.size() - 1;
      while (stream.steps[update].kind == OrderedStep::Kind::call) {
        --update;
      }
      std::vector<bool> is_done(stream.steps.size(), false);
      is_done[update] = true;
      for (std::size_t at = update + 1; at-- > 0;) {
        const OrderedStep& step = stream.steps[at];
        for (std::uint32_t wait = step.first_wait; is_done[at] && wait < step.first_wait + step.waits;
             ++wait) {
          is_done[stream.waits[wait]] = true;
        }
        const bool is_send = step.kind == OrderedStep::Kind::call &&
                             trace.op(trace.streams[row].events[step.row].op).kind == CommKind::send;
        RC_ASSERT(is_done[at] || is_send);
      }
    }
  }));
}

}  // namespace
}  // namespace commlens
