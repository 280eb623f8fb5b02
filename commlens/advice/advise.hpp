#pragma once
#include <string>

#include "commlens/advice/advice.hpp"
#include "commlens/base/result.hpp"
#include "commlens/model/job.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens {

/// What would lower the communication of `job`, a validated job: every setting of docs/advice.md is changed
/// by itself, the job is planned again, and what saves enough is recommended. `trace` (or null) is a
/// recording of this job; its times decide how much a call costs, and its compute intervals what
/// communication is exposed. Fails for the paper's rules, which have volumes rather than calls, and for what
/// the framework's rules do not support.
Result<Advice> advise(const Job& job, const Trace* trace, const AdviceOptions& options);

/// "deepspeed, neox, …": the frameworks whose jobs can be advised on, which have settings to change.
std::string advised_framework_names();

}  // namespace commlens
