// Laws of what DeepSpeed sends (docs/frameworks/deepspeed.md).
#include <algorithm>
#include <cstdint>
#include <string>

#include <gtest/gtest.h>

#include "commlens/comm/volume.hpp"
#include "commlens/frameworks/deepspeed/behaviour.hpp"
#include "commlens/frameworks/deepspeed/options.hpp"
#include "commlens/frameworks/frameworks.hpp"
#include "commlens/frameworks/planner.hpp"
#include "commlens/frameworks/presets.hpp"
#include "commlens/model/parameters.hpp"

namespace commlens {
namespace {

/// The 125M model in bf16 on four data ranks, by a release.
Job trained(int stage, std::string_view release) {
  Job job = with_framework(preset("125M").value(), "deepspeed");
  job.framework_version = release;
  job.layout = {.ranks = 4};
  job.train.dtype = DType::bf16;
  job.train.zero_stage = stage;
  job.train.recompute = Recompute::none;
  return job;
}

Plan plan_of(Job job) { return make_plan(validated(std::move(job)).value()).value(); }

/// Elements of a rank's calls of one kind that are neither flags nor norms, in an iteration.
std::int64_t elements_of(const Plan& plan, CommKind kind, Iteration iteration) {
  std::int64_t elements = 0;
  for (const PlanStep& step : plan.classes.front().at(iteration).steps) {
    if (step.kind == PlanStep::Kind::call) {
      const CommOp& op = plan.tables.op(step.op());
      elements += op.kind == kind && op.input.value > 1 ? op.input.value : 0;
    }
  }
  return elements;
}

class EveryRelease : public testing::TestWithParam<std::string> {};

/// Every gradient is reduced once: its elements, in stage 3 those of shards times the ranks, of which four
/// divide every parameter of the model.
TEST_P(EveryRelease, ReductionsSumToTheParameters) {
  for (const int stage : {1, 2, 3}) {
    const Plan plan = plan_of(trained(stage, GetParam()));
    const std::int64_t parameters = parameter_count(plan.job.model).value;
    const CommKind kind = stage == 3 ? CommKind::reduce_scatter : CommKind::all_reduce;
    EXPECT_EQ(elements_of(plan, kind, 3), parameters) << "stage " << stage;
  }
}

/// What stages 1 and 2 update is gathered from the shards: a fourth of the parameters of each of two groups,
/// padded to 8 elements.
TEST_P(EveryRelease, GathersSumToTheParameters) {
  for (const int stage : {1, 2}) {
    const Plan plan = plan_of(trained(stage, GetParam()));
    const std::int64_t parameters = parameter_count(plan.job.model).value;
    const std::int64_t gathered = 4 * elements_of(plan, CommKind::all_gather, 3);
    EXPECT_GE(gathered, parameters) << "stage " << stage;
    EXPECT_LT(gathered, parameters + 2 * 8) << "stage " << stage;
  }
}

/// One rank has no shards to gather, and its sums go nowhere.
TEST_P(EveryRelease, OneRankGathersNothing) {
  for (const int stage : {0, 1, 2, 3}) {
    Job job = trained(stage, GetParam());
    job.layout.ranks = 1;
    EXPECT_EQ(elements_of(plan_of(job), CommKind::all_gather, 3), 0) << "stage " << stage;
  }
}

/// A degree of 1 that is asked for adds nothing: a partition of one rank (hpZ), a mesh of one sequence rank.
TEST_P(EveryRelease, DegreesOfOneAddNothing) {
  for (const int stage : {1, 2, 3}) {
    const Plan plain = plan_of(trained(stage, GetParam()));
    Job job = trained(stage, GetParam());
    job.train.hpz = job.layout.cp = 1;
    deepspeed::options(job).sequence_groups = deepspeed::SequenceGroups::mesh;
    deepspeed::options(job).gpus_per_node = 4;
    job.train.quantized_gradients = stage == 3;  // on one node, where nothing is quantised
    EXPECT_EQ(plan_of(job).classes.front().at(3), plain.classes.front().at(3)) << "stage " << stage;
  }
}

/// Experts of which every rank has all exchange no tokens; those of two ranks do.
TEST_P(EveryRelease, OneExpertRankExchangesNoTokens) {
  const auto exchanged = [&](std::int64_t ranks) {
    Job job = trained(2, GetParam());
    job.model.experts = 8;
    job.model.top_k = 1;
    job.layout.ep = ranks;
    deepspeed::options(job).mixture.layers = {0, 1};
    return elements_of(plan_of(job), CommKind::all_to_all, 3);
  };
  EXPECT_EQ(exchanged(1), 0);
  // Twice forward and twice backward in two layers: 8 experts x ceil(4 x 2048 / 8) tokens x width 768.
  EXPECT_EQ(exchanged(2), std::int64_t{2} * 4 * 8 * 1024 * 768);
}

std::vector<std::string> releases() {
  std::vector<std::string> names;
  for (const KnownVersion& version : deepspeed::known_versions()) {
    names.emplace_back(version.last);
  }
  return names;
}

INSTANTIATE_TEST_SUITE_P(Of, EveryRelease, testing::ValuesIn(releases()),
                         [](const testing::TestParamInfo<std::string>& parameter) {
                           std::string name = parameter.param;
                           std::replace(name.begin(), name.end(), '.', '_');
                           return name;
                         });

}  // namespace
}  // namespace commlens
