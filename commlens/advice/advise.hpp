#pragma once
#include <string>

#include "commlens/advice/advice.hpp"
#include "commlens/base/result.hpp"
#include "commlens/model/job.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens {

/// Advice on lowering the communication of `job`, a validated job: each setting of docs/advice.md is changed
/// separately, the job is planned again, and changes that save enough are recommended. `trace` (or null) is a
/// recording of this job; its times determine the cost of calls, and its compute intervals the exposed
/// communication. Fails for the paper's rules, which have volumes rather than calls, and for jobs that the
/// framework's rules do not support.
Result<Advice> advise(const Job& job, const Trace* trace, const AdviceOptions& options);

/// "deepspeed, neox, …": the frameworks with advice, which have settings to change.
std::string advised_framework_names();

}  // namespace commlens
