#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "commlens/base/result.hpp"
#include "commlens/frameworks/frameworks.hpp"

namespace commlens::pytorch {

/// The programs of a job without pipeline stages: DDP, FSDP, tensor and context parallelism in any product.
Result<std::vector<StagePrograms>> write_spmd(const Job& job, Plan& plan);

}  // namespace commlens::pytorch
