#pragma once
#include <string>
#include <vector>

#include "commlens/base/result.hpp"
#include "commlens/model/job.hpp"
#include "commlens/plan/plan.hpp"

namespace commlens {

/// A job's calls after one more thing was changed, and the name of that cause (compare/causes.hpp) with the
/// framework's file and line where there is one.
struct EquationStep {
  std::string cause;
  std::string source;
  Plan plan;
};

/// From the paper's equations to a framework's calls of the same purpose, one change at a time.
struct PaperSteps {
  Plan equations;  // as printed, for this job
  std::vector<EquationStep>
      corrected;   // each step corrects one more term; steps that change nothing are skipped
  Plan idealised;  // the framework with the settings below at what the equations assume
  std::vector<EquationStep> settings;  // each step sets one more of them to what the job has
};

/// Steps for a validated job, whose framework is the one that really ran it (not the paper). The last plan is
/// that of the job itself. Fails where make_plan does, and for what the equations do not speak of.
/// Source: docs/comparing.md.
Result<PaperSteps> paper_steps(const Job& job);

}  // namespace commlens
