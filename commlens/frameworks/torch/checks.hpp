#pragma once
#include <string>
#include <vector>

#include "commlens/base/result.hpp"
#include "commlens/model/job.hpp"

namespace commlens::pytorch {

/// Refuses what PyTorch's release refuses or fails at, and what the rules do not have: one reason, by name.
Result<void> check_job(const Job& job);

/// Which of the job's settings no recording of PyTorch has: reasons for "unverified".
std::vector<std::string> never_recorded(const Job& job);

}  // namespace commlens::pytorch
