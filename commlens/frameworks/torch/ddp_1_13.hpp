#pragma once
#include <span>
#include <string>
#include <vector>

#include "commlens/frameworks/frameworks.hpp"

namespace commlens::torch_ddp {

/// bucket_cap_mb where it is not given.
constexpr Bytes k_usual_cap{25 * 1024 * 1024};

// DistributedDataParallel of PyTorch 1.13, whose behaviour is older than the releases of behaviour.hpp.
Result<void> check(const Job& job);
std::vector<std::string> unverified(const Job& job);
Result<std::vector<StagePrograms>> write(const Job& job, std::span<const std::int64_t> stages, Plan& plan);

}  // namespace commlens::torch_ddp
