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
  std::vector<std::string> config;   // as in PredictRequest
  std::optional<std::string> trace;  // a recording of that job: its times decide what a call costs
  std::string framework;
  Overrides overrides;
  AdviceOptions options;
  Events events;
};

/// The advice, and the job and trace that it is about.
struct AdviseResult {
  Plan plan;
  Advice advice;
  std::string note;  // whether the trace is a run of this job; empty without one
};

/// Changes one setting of the job at a time and reports those that would lower its communication. The default
/// number of ranks is that of the trace. Fails if an input cannot be read or the job cannot be planned.
Result<AdviseResult> advise(const AdviseRequest& request);

/// A table; JSON as schema commlens.advise/2; CSV with one line per setting.
std::string rendered(const AdviseResult& result, Format format, const TextStyle& style = {});

}  // namespace commlens
