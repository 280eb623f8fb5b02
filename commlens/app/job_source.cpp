#include "commlens/app/job_source.hpp"

#include <fmt/format.h>

#include "commlens/frameworks/frameworks.hpp"
#include "commlens/frameworks/planner.hpp"

namespace commlens {

Result<Plan> Planner::plan(const Job& job, const Overrides& overrides, std::optional<Rank> only) {
  Result<Job> changed =
      with_overrides(job, overrides).and_then([](Job open) { return validated(std::move(open)); });
  if (!changed) {
    return tl::unexpected(changed.error());
  }
  Result<Plan> plan = make_plan(*changed, only);
  pass_on(plan ? plan->job.warnings : changed->warnings);
  return plan;
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
