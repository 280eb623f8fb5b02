#pragma once
#include "commlens/base/result.hpp"
#include "commlens/model/job.hpp"

namespace commlens::pytorch {

/// Refuses what PyTorch's release refuses or fails at, and what the rules do not have: one reason, by name.
Result<void> check_job(const Job& job);

}  // namespace commlens::pytorch
