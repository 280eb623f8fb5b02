#pragma once
#include <string>
#include <vector>

#include "commlens/app/compare_sides.hpp"
#include "commlens/app/setting_search.hpp"
#include "commlens/compare/explain.hpp"
#include "commlens/frameworks/paper/steps.hpp"

namespace commlens {

/// The way from the equations to `other`, as traces of one iteration (compare/explain.hpp).
std::vector<ExplainStep> explain_steps_of(const PaperSteps& planned, const Trace& other, Iteration iteration);

/// Why a side has other volumes than the paper's equations give: exactly one of the sides has volumes only.
/// The configuration behind the equations is predicted once more by the framework that ran it (its own, or
/// that of the other side), and the way from the equations there is taken one change at a time
/// (frameworks/paper/steps.hpp). Where that cannot be done everything is unexplained, and a note says why.
Result<Explanation> explain_against_paper(const Side& a, const Side& b, const Overrides& overrides,
                                          const CompareOptions& options, Planner& planner);

/// What differs between two traces, why, and which settings would explain it.
struct WhyCallsDiffer {
  std::vector<Difference> differences;  // with rules on both sides where settings explain them
  Explanation explanation;
  std::string hints;  // lines for people: the settings, or what else to try
  std::vector<SettingGuess> guesses;
};

/// Why the calls of two sides differ, `comparison` of which is given. Where one is a configuration and the
/// other a trace, settings are searched under which the configuration comes closer to the trace
/// (setting_search.hpp), and their prediction is taken as a stop between the two.
Result<WhyCallsDiffer> why_calls_differ(const Side& a, const Side& b, const Comparison& comparison,
                                        const CompareOptions& options);

}  // namespace commlens
