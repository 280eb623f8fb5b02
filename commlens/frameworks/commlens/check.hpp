#pragma once
#include "commlens/base/result.hpp"
#include "commlens/model/job.hpp"

namespace commlens::trainer {

/// Refuses, by name, what our trainer does not do. Source: docs/training.md.
Result<void> check(const Job& job);

}  // namespace commlens::trainer
