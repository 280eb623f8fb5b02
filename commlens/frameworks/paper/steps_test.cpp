#include "commlens/frameworks/paper/steps.hpp"

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
