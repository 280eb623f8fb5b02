#pragma once
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "commlens/app/events.hpp"
#include "commlens/base/result.hpp"
#include "commlens/frameworks/overrides.hpp"
#include "commlens/model/job.hpp"
#include "commlens/plan/plan.hpp"

namespace commlens {

/// Plans jobs and passes their warnings on, each once.
class Planner {
 public:
  /// `names_others`: errors say which rule sets take a job that its own do not cover, which takes a plan
  /// each.
  explicit Planner(Events events, bool names_others = true)
      : events_(std::move(events)), names_others_(names_others) {}

  /// The job with the flags applied and checked, planned. `only`: the class of that rank alone.
  Result<Plan> plan(const Job& job, const Overrides& overrides, std::optional<Rank> only = std::nullopt);

 private:
  void pass_on(const std::vector<std::string>& warnings);

  Events events_;
  bool names_others_;
  std::set<std::string> warned_;
};

/// The choice of --framework; std::nullopt for an empty text.
Result<std::string> checked_framework(const std::string& name);

}  // namespace commlens
