#pragma once
#include "commlens/base/result.hpp"
#include "commlens/model/job.hpp"

namespace commlens::deepspeed {

/// Fails where a job asks for what its release does not have yet, or has no more.
Result<void> check_release(const Job& job);
/// Fails where DeepSpeed refuses the dtype in which gradients are summed without ZeRO.
Result<void> check_accumulation(const Job& job);
/// Fails where ZeRO refuses how gradients are averaged.
Result<void> check_averaging(const Job& job);

}  // namespace commlens::deepspeed
