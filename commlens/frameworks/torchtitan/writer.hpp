#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "commlens/base/result.hpp"
#include "commlens/frameworks/frameworks.hpp"

namespace commlens::torchtitan {

/// The programs of these pipeline ranks: torchtitan's Trainer (trainer.py of 0.3.0).
Result<std::vector<StagePrograms>> write(const Job& job, std::span<const std::int64_t> ranks, Plan& plan);

}  // namespace commlens::torchtitan
