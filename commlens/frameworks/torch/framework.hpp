#pragma once
#include "commlens/frameworks/frameworks.hpp"

namespace commlens::torch_ddp {

/// DistributedDataParallel of PyTorch 1.13.
FrameworkRules rules();

}  // namespace commlens::torch_ddp
