#pragma once
#include "commlens/frameworks/frameworks.hpp"

namespace commlens::torch_ddp {

/// DistributedDataParallel of PyTorch 1.13.
FrameworkRules rules();
/// What its rules mean (rule_book).
std::span<const RuleRow> causes();

}  // namespace commlens::torch_ddp
