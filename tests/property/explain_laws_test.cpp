// Laws of explanations, on random jobs.
#include <map>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "commlens/app/explain_sides.hpp"
#include "commlens/compare/explain.hpp"
#include "commlens/frameworks/commlens/options.hpp"
#include "commlens/frameworks/deepspeed/options.hpp"
#include "commlens/frameworks/frameworks.hpp"
#include "commlens/frameworks/megatron/options.hpp"
#include "commlens/frameworks/neox/options.hpp"
#include "commlens/frameworks/paper/steps.hpp"
#include "commlens/frameworks/planner.hpp"
#include "commlens/model/job.hpp"
#include "tests/property/random_jobs.hpp"

namespace commlens {
namespace {

void choose_mixed_layout(Job& job) {
  job.layout.tp = *rc::gen::element<std::int64_t>(1, 2, 4);
  job.layout.pp = *rc::gen::element<std::int64_t>(1, 2, 4);
  job.train.recompute = *rc::gen::element(Recompute::none, Recompute::full);
  job.train.zero_stage = *rc::gen::inRange(0, 2);
}

void choose_deepspeed(Job& job) {
  deepspeed::Options& options = deepspeed::options(job);
  options.reduce_bucket_size = *rc::gen::inRange<std::int64_t>(1000, 100000);
  job.train.persistence_threshold = *rc::gen::inRange<std::int64_t>(0, 300);
  options.max_reuse_distance = *rc::gen::element<std::int64_t>(0, 5000, 1'000'000'000);
  options.weight_decay_groups = *rc::gen::arbitrary<bool>();
  options.reduce_scatter = *rc::gen::weightedElement<bool>({{3, true}, {1, false}});
  options.use_multi_rank_bucket_allreduce = *rc::gen::weightedElement<bool>({{3, true}, {1, false}});
  options.overlap_comm = *rc::gen::arbitrary<bool>();
  job.train.gradient_clipping = *rc::gen::element(0.0, 1.0);
}

/// A small job to which the equations apply.
Job random_job() {
  Job job =
      random_gpt(*rc::gen::element<std::string>("deepspeed", "neox", "megatron", "torch-ddp", "commlens"), 2);
  job.model.positions = *rc::gen::element(Positions::rotary, Positions::learned);
  job.train.micro_batch = *rc::gen::inRange<std::int64_t>(1, 4);
  job.train.micro_batches = *rc::gen::inRange<std::int64_t>(1, 4);
  job.train.dtype = *rc::gen::element(DType::fp32, DType::fp16, DType::bf16);
  job.layout.dp = *rc::gen::inRange<std::int64_t>(1, 5);
  if (job.framework == "neox") {
    choose_mixed_layout(job);
    choose_deepspeed(job);
    job.model.parallel_residual = *rc::gen::arbitrary<bool>();
    job.train.partition_activations = *rc::gen::arbitrary<bool>();
    neox::options(job).fp32_allreduce = *rc::gen::arbitrary<bool>();
    deepspeed::options(job).pipe_partitioned = *rc::gen::arbitrary<bool>();
  } else if (job.framework == "megatron") {
    choose_mixed_layout(job);
    megatron::options(job).gradients_in_fp32 = *rc::gen::arbitrary<bool>();
  } else if (job.framework == "commlens") {
    job.train.dtype = DType::fp32;
    job.train.zero_stage = *rc::gen::inRange(0, 4);
    trainer::options(job).all_reduce_gradients = job.train.zero_stage == 1 && *rc::gen::arbitrary<bool>();
    trainer::options(job).bucket = Bytes{*rc::gen::inRange<std::int64_t>(1000, 100000) * 4};
    job.train.persistence_threshold = *rc::gen::inRange<std::int64_t>(0, 300);
  } else if (job.framework == "deepspeed") {
    job.train.zero_stage = *rc::gen::element(0, 1, 2, 3, 3, 3);
    job.train.recompute = *rc::gen::element(Recompute::none, Recompute::full);
    choose_deepspeed(job);
  }
  return job;
}

struct Planned {
  Job job;
  Plan plan;
};

Planned planned_random_job() {
  const Result<Job> job = validated(random_job());
  RC_PRE(job.has_value());
  Result<Plan> plan = make_plan(*job);
  RC_PRE(plan.has_value());
  return {*job, std::move(*plan)};
}

using Change = std::map<std::pair<Axis, CommKind>, std::pair<std::int64_t, std::int64_t>>;

void add_rows(const std::vector<ExplainedRow>& rows, Change& change) {
  for (const ExplainedRow& row : rows) {
    RC_ASSERT(row.calls_a >= 0 && row.calls_b >= 0);
    RC_ASSERT(row.message_a >= Bytes{0} && row.message_b >= Bytes{0});
    change[{row.axis, row.kind}].first += row.calls();
    change[{row.axis, row.kind}].second += row.message().value;
  }
}

/// The sum over causes is the difference of the volumes, per axis and op, in calls and bytes.
void check_sum(const Trace& a, const Trace& b, const Explanation& explanation) {
  Change change;
  for (const ExplainedGroup& group : explanation.explained) {
    add_rows(group.rows, change);
  }
  add_rows(explanation.unexplained, change);
  const Result<std::vector<VolumeDifference>> volumes = compare_volumes(a, b, {});
  RC_ASSERT(volumes.has_value());
  for (const VolumeDifference& row : *volumes) {
    const auto [calls, bytes] = change[{row.axis, row.kind}];
    RC_ASSERT(calls == row.calls_b - row.calls_a);
    RC_ASSERT(bytes == (row.message_b - row.message_a).value);
    change.erase({row.axis, row.kind});
  }
  for (const auto& [key, left] : change) {
    RC_ASSERT(left.first == 0 && left.second == 0);
  }
}

Trace equations_of(const Job& job, Iteration iteration) {
  Job on_paper = job;
  on_paper.framework = "paper";
  return make_plan(on_paper).value().trace_of({iteration});
}

TEST(ExplainLaws, EveryByteAFrameworkSendsHasACause) {
  ASSERT_TRUE(rc::check([] {
    const Planned run = planned_random_job();
    const Iteration iteration = *rc::gen::inRange(0, 3);
    const Trace recorded = run.plan.trace_of({iteration});
    const Trace equations = equations_of(run.job, iteration);
    const Result<PaperSteps> steps = paper_steps(run.job);
    RC_ASSERT(steps.has_value());
    const Result<Explanation> explanation =
        explain_steps(equations, explain_steps_of(*steps, recorded, iteration), {.rules = &rule_book()});
    RC_ASSERT(explanation.has_value());
    for (const ExplainedRow& row : explanation->unexplained) {
      RC_LOG() << name_of(row.axis) << ' ' << name_of(row.kind) << ' ' << row.calls() << ' '
               << row.message().value << ' ' << row.rule << '\n';
    }
    RC_ASSERT(explanation->complete());
    check_sum(equations, recorded, *explanation);
  }));
}

/// Also where the recording is of another job, so that much is unexplained.
TEST(ExplainLaws, CausesAndTheUnexplainedAddUpWhateverIsCompared) {
  ASSERT_TRUE(rc::check([] {
    const Planned run = planned_random_job();
    Job other = run.job;
    other.train.micro_batch += 1;
    other.model.vocab += 64;
    const Result<Job> valid = validated(other);
    RC_PRE(valid.has_value());
    const Result<Plan> recorded_plan = make_plan(*valid);
    RC_PRE(recorded_plan.has_value());
    const Trace recorded = recorded_plan->trace_of({1});
    const Trace equations = equations_of(run.job, 1);
    const Result<Explanation> explanation = explain_steps(
        equations, explain_steps_of(paper_steps(run.job).value(), recorded, 1), {.rules = &rule_book()});
    RC_ASSERT(explanation.has_value());
    check_sum(equations, recorded, *explanation);
    check_sum(recorded, equations, exchanged(*explanation));
  }));
}

}  // namespace
}  // namespace commlens
