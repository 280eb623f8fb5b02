#pragma once
#include <string>
#include <vector>

#include "commlens/app/compare_sides.hpp"
#include "commlens/app/setting_search.hpp"
#include "commlens/compare/explain.hpp"
#include "commlens/frameworks/paper/steps.hpp"

namespace commlens {

/// The steps from the equations to `other`, as traces of one iteration (compare/explain.hpp).
std::vector<ExplainStep> explain_steps_of(const PaperSteps& planned, const Trace& other, Iteration iteration);

/// Explains why a side's volumes differ from the paper's equations; exactly one of the sides has volumes
/// only. The configuration of the equations is predicted again by the framework that ran it (its own, or that
/// of the other side), and the steps from the equations to that prediction change one thing each
/// (frameworks/paper/steps.hpp). If that is not possible, everything is unexplained and a note gives the
/// reason.
Result<Explanation> explain_against_paper(const Side& a, const Side& b, const Overrides& overrides,
                                          const CompareOptions& options, Planner& planner);

/// The differences of two traces, their causes, and settings that would explain them.
struct WhyCallsDiffer {
  std::vector<Difference> differences;  // the prediction under the guessed settings, if there are any
  Explanation explanation;
  std::string hints;  // lines for people: the settings, or other suggestions
  std::vector<SettingGuess> guesses;
};

/// Explains why the calls of two sides differ, or their order and reduce ops, from their `comparison`. If one
/// is a configuration and the other a trace, settings are searched under which the configuration is closer to
/// the trace (setting_search.hpp); their prediction is an intermediate step between the two.
Result<WhyCallsDiffer> why_calls_differ(const Side& a, const Side& b, const Comparison& comparison,
                                        const CompareOptions& options);

}  // namespace commlens
