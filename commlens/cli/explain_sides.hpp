#pragma once
#include <string>
#include <vector>

#include "commlens/cli/compare_sides.hpp"
#include "commlens/compare/explain.hpp"
#include "commlens/plan/paper_steps.hpp"

namespace commlens {

/// The way from the equations to `other`, as traces of one iteration (compare/explain.hpp).
std::vector<ExplainStep> explain_steps_of(const PaperSteps& planned, const Trace& other, Iteration iteration);

/// Why a side has other volumes than the paper's equations give: exactly one of the sides has volumes only.
/// The configuration behind the equations is predicted once more by the framework that ran it (its own, or
/// that of the other side), and the way from the equations there is taken one change at a time
/// (plan/paper_steps.hpp). Where that cannot be done everything is unexplained, and a note says why.
Result<Explanation> explain_against_paper(const Side& a, const Side& b, const LayoutFlags& flags,
                                          const CompareOptions& options, Planner& planner);

}  // namespace commlens
