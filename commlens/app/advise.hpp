#pragma once
#include <optional>
#include <string>
#include <vector>

#include "commlens/advice/advise.hpp"
#include "commlens/app/events.hpp"
#include "commlens/app/format.hpp"
#include "commlens/base/result.hpp"
#include "commlens/frameworks/overrides.hpp"
#include "commlens/plan/plan.hpp"

namespace commlens {

/// A job to advise on.
struct AdviseRequest {
  std::vector<std::string> config;   // as PredictRequest has it
  std::optional<std::string> trace;  // a recording of that job: its times decide what a call costs
  std::string framework;
  Overrides overrides;
  AdviceOptions options;
  Events events;
};

/// What is advised, and on what.
struct AdviseResult {
  Plan plan;
  Advice advice;
  std::string note;  // whether the trace is a run of this job; empty without one
};

/// Changes one setting of the job after the other and says which of them would lower its communication.
/// Without a number of ranks anywhere, as many as the trace has. Fails for what cannot be read or planned.
Result<AdviseResult> advise(const AdviseRequest& request);

/// A table; JSON as schema commlens.advise/2; CSV with one line per setting.
std::string rendered(const AdviseResult& result, Format format, const TextStyle& style = {});

}  // namespace commlens
