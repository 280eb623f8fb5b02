#include "commlens/app/job_source.hpp"

#include <fmt/format.h>

#include "commlens/frameworks/fitting.hpp"
#include "commlens/frameworks/frameworks.hpp"
#include "commlens/frameworks/planner.hpp"

namespace commlens {

Result<Plan> Planner::plan(const Job& job, const Overrides& overrides, std::optional<Rank> only) {
  std::vector<std::string> warnings;
  Result<Plan> plan = with_overrides(job, overrides)
                          .and_then([](Job open) { return validated(std::move(open)); })
                          .and_then([&](const Job& valid) {
                            warnings = valid.warnings;
                            return make_plan(valid, only);
                          });
  pass_on(plan ? plan->job.warnings : warnings);
  if (plan) {
    return plan;
  }
  return tl::unexpected(names_others_ ? with_fitting_frameworks(plan.error(), job, overrides)
                                      : of_these_rules(plan.error()));
}

void Planner::pass_on(const std::vector<std::string>& warnings) {
  for (const std::string& warning : warnings) {
    if (warned_.insert(warning).second) {
      events_.warn(warning);
    }
  }
}

Result<std::string> checked_framework(const std::string& name) {
  if (name.empty()) {
    return name;
  }
  if (name.find(',') != std::string::npos) {
    return failure(fmt::format("--framework {}: only predict sweeps over lists; give one name", name));
  }
  return versioned_framework(name).map([&](const VersionedFramework&) { return name; });
}

}  // namespace commlens
