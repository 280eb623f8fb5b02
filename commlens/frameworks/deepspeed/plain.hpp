#pragma once
#include "commlens/frameworks/frameworks.hpp"

namespace commlens::deepspeed {

/// The steps of a job without a pipeline: a script that calls deepspeed.initialize, or the Trainer of
/// transformers. Fails where DeepSpeed fails on what it would send.
Result<StagePrograms> write_plain(const Job& job, Plan& plan);

}  // namespace commlens::deepspeed
