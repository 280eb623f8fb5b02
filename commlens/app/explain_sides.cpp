#include "commlens/app/explain_sides.hpp"

#include <fmt/format.h>

#include "commlens/compare/scope.hpp"
#include "commlens/frameworks/read_config.hpp"

namespace commlens {
namespace {

/// The job as it was run: the other side's, if that is a configuration; else the configuration of the
/// equations, under the framework named by it or by the recording.
Result<Job> job_that_ran(const Side& paper, const Side& other, const Overrides& overrides, Planner& planner) {
  if (other.planned) {
    return *other.planned;
  }
  if (!paper.is_config()) {
    return failure(fmt::format("{} is a trace of volumes; give the configuration itself", paper.argument));
  }
  const std::string framework = records_own_trainer(other.trace) ? "commlens" : "";
  const Result<Job> job = read_config({paper.argument}, framework);
  if (!job) {
    return tl::unexpected(job.error());
  }
  if (job->framework == "paper") {
    return failure(fmt::format("{} names no framework but the paper", paper.argument));
  }
  return planner.plan(*job, overrides_for(*job, other, overrides)).map([](const Plan& plan) {
    return plan.job;
  });
}

/// Uses a prediction that is closer to the recording as an intermediate step between the two sides: its rules
/// identify the recording's calls.
Result<void> explain_by_guesses(const Side& a, const Side& b, const SettingSearch& search,
                                const CompareOptions& options, WhyCallsDiffer& why) {
  const Result<Comparison> first = compare(a.trace, search.closest, options);
  const Result<Comparison> second = compare(search.closest, b.trace, options);
  if (!first || !second) {
    return tl::unexpected(first ? second.error() : first.error());
  }
  const Comparison& to_closest = a.is_config() ? *first : *second;
  why.explanation = explain_calls(to_closest, a.is_config() ? *second : *first);
  why.differences = to_closest.differences;
  why.guesses = search.guesses;
  return {};
}

}  // namespace

std::vector<ExplainStep> explain_steps_of(const PaperSteps& planned, const Trace& other,
                                          Iteration iteration) {
  using By = ExplainStep::By;
  const std::vector<Iteration> one = {iteration};
  std::vector<ExplainStep> steps;
  steps.push_back({By::nothing, "", "", planned.equations.trace_of(one)});
  for (const EquationStep& step : planned.corrected) {
    steps.push_back({By::cause, step.cause, step.source, step.plan.trace_of(one)});
  }
  steps.push_back({By::rules, "", "", planned.idealised.trace_of(one)});
  for (const EquationStep& step : planned.settings) {
    steps.push_back({By::cause, step.cause, step.source, step.plan.trace_of(one)});
  }
  steps.push_back({By::nothing, "", "", other});
  return steps;
}

Result<Explanation> explain_against_paper(const Side& a, const Side& b, const Overrides& overrides,
                                          const CompareOptions& options, Planner& planner) {
  const bool first_is_paper = a.has_volumes_only();
  const Side& paper = first_is_paper ? a : b;
  const Side& other = first_is_paper ? b : a;
  const Result<Scope> scope = common_scope(paper.trace, other.trace, options);
  if (!scope) {
    return tl::unexpected(scope.error());
  }
  const Result<PaperSteps> planned = job_that_ran(paper, other, overrides, planner).and_then(paper_steps);
  const std::vector<ExplainStep> steps =
      planned ? explain_steps_of(*planned, other.trace, scope->iterations.back())
              : std::vector<ExplainStep>{{ExplainStep::By::nothing, "", "", other.trace}};
  return explain_steps(paper.trace, steps, options).map([&](Explanation explanation) {
    if (!planned) {
      explanation.notes.push_back(
          fmt::format("the differences are not explained: {}", planned.error().message));
    }
    return first_is_paper ? std::move(explanation) : exchanged(std::move(explanation));
  });
}

Result<WhyCallsDiffer> why_calls_differ(const Side& a, const Side& b, const Comparison& comparison,
                                        const CompareOptions& options) {
  WhyCallsDiffer why{comparison.differences, explain_calls(comparison), "", {}};
  if (a.is_config() == b.is_config()) {
    return why;
  }
  const Side& config = a.is_config() ? a : b;
  const Side& other = a.is_config() ? b : a;
  if (!comparison.equal() && records_own_trainer(other.trace) && config.planned->framework != "commlens") {
    why.hints = fmt::format(
        "{} was recorded by our own trainer and {} is predicted by other rules; try --framework commlens\n",
        other.argument, config.argument);
  }
  const SettingSearch search = search_settings(*config.planned, config.trace, other.trace, options);
  why.hints += search_text(search, a.is_config() ? "B" : "A");
  why.guesses = search.guesses;
  if (!search.guesses.empty() && search.in == DifferIn::calls) {
    if (const Result<void> done = explain_by_guesses(a, b, search, options, why); !done) {
      return tl::unexpected(done.error());
    }
  }
  return why;
}

}  // namespace commlens
