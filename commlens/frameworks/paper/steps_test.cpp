#include "commlens/frameworks/paper/steps.hpp"

#include <algorithm>
#include <iterator>

#include <gtest/gtest.h>

#include "commlens/frameworks/frameworks.hpp"
#include "commlens/frameworks/overrides.hpp"
#include "commlens/frameworks/planner.hpp"
#include "commlens/frameworks/presets.hpp"

namespace commlens {
namespace {

Job job_of(const Overrides& flags) {
  return validated(with_overrides(*preset("19M"), flags).value()).value();
}

std::vector<std::string> causes_of(const PaperSteps& steps) {
  std::vector<std::string> causes;
  for (const EquationStep& step : steps.corrected) {
    causes.push_back(step.cause);
  }
  return causes;
}

/// 19M has rotary positions, two untied embeddings and a vocabulary that is padded already for one rank.
TEST(PaperSteps, LeaveOutCorrectionsThatChangeNothing) {
  Overrides flags;
  flags.framework = "torch-ddp";
  flags.dp = 4;
  flags.zero = 0;
  const PaperSteps steps = paper_steps(job_of(flags)).value();
  EXPECT_EQ(causes_of(steps), (std::vector<std::string>{"layer_parameters", "position_embeddings"}));
  EXPECT_TRUE(steps.settings.empty());
}

TEST(PaperSteps, BeginWithTheEquationsAndEndWithTheJob) {
  Overrides flags;
  flags.framework = "deepspeed";
  flags.dp = 4;
  flags.zero = 3;
  const Job job = job_of(flags);
  const PaperSteps steps = paper_steps(job).value();
  EXPECT_EQ(steps.equations.classes.size(), 1U);
  const Trace calls = steps.equations.trace_of({0});
  EXPECT_EQ(calls.op(calls.streams.at(0).events.at(0).op).output.value, 71459840) << "Eq. 1 of 19M";
  const Plan plan = make_plan(job).value();
  EXPECT_EQ(steps.settings.back().plan.classes[0].iterations.size(), plan.classes[0].iterations.size());
  EXPECT_EQ(steps.settings.back().plan.classes[0].iterations.back(), plan.classes[0].iterations.back());
}

/// Elements that one rank gathers in the first iteration of a plan.
std::int64_t gathered(const Plan& plan) {
  const Trace calls = plan.trace_of({0});
  std::int64_t sum = 0;
  for (const CommEvent& event : calls.streams.at(0).events) {
    const CommOp& op = calls.op(event.op);
    sum += op.kind == CommKind::all_gather ? op.output.value : 0;
  }
  return sum;
}

/// In both passes, before the first iteration has shown which parameters are used again.
TEST(PaperSteps, Zero3GathersATiedEmbeddingForEitherModule) {
  Overrides flags;
  flags.framework = "deepspeed";
  flags.dp = 2;
  flags.zero = 3;
  Job job = with_overrides(*preset("19M"), flags).value();
  job.model.tied_embeddings = true;
  const PaperSteps steps = paper_steps(validated(std::move(job)).value()).value();
  const auto tied = std::find_if(steps.corrected.begin(), steps.corrected.end(),
                                 [](const EquationStep& step) { return step.cause == "tied_modules"; });
  ASSERT_NE(tied, steps.corrected.end());
  EXPECT_EQ(gathered(tied->plan) - gathered(std::prev(tied)->plan), 2 * 50304 * 512);
  EXPECT_EQ(gathered(steps.corrected.back().plan), gathered(steps.idealised));
}

/// Six layers of 12 h^2 + 13 h parameters, h = 512.
TEST(PaperSteps, Zero3GathersLayersOnceMoreToRecomputeThem) {
  Overrides flags;
  flags.framework = "deepspeed";
  flags.dp = 2;
  flags.zero = 3;
  Job job = with_overrides(*preset("19M"), flags).value();
  job.train.persistence_threshold = 0;
  const PaperSteps steps = paper_steps(validated(std::move(job)).value()).value();
  const auto again = std::find_if(steps.settings.begin(), steps.settings.end(), [](const EquationStep& step) {
    return step.cause == "gathered_to_recompute";
  });
  ASSERT_NE(again, steps.settings.end());
  EXPECT_EQ(gathered(again->plan) - gathered(std::prev(again)->plan), 6 * (12 * 512 * 512 + 13 * 512));
}

TEST(PaperSteps, RefuseWhatTheEquationsDoNotKnow) {
  Overrides flags;
  flags.framework = "megatron";
  flags.tp = 2;
  flags.sp = true;
  const Result<PaperSteps> steps = paper_steps(job_of(flags));
  ASSERT_FALSE(steps.has_value());
  EXPECT_NE(steps.error().message.find("no equation"), std::string::npos);
}

}  // namespace
}  // namespace commlens
