#pragma once
#include "commlens/base/result.hpp"
#include "commlens/model/job.hpp"

namespace commlens::torchtitan {

/// Before the layout is resolved: experts fold tensor, context and data ranks.
void prepare(Job& job);
/// Once it is: the settings of PyTorch's modules that torchtitan's stand for.
void lower(Job& job);

}  // namespace commlens::torchtitan
