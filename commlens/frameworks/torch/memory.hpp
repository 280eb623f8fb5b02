#pragma once
#include <cstdint>

#include "commlens/frameworks/memory_rules.hpp"

namespace commlens::pytorch {

/// What a rank of DDP, FSDP, tensor, context and pipeline parallelism holds. Unlike the mixed precision that
/// other frameworks bring along, torch's optimizers keep their states in the type of the parameters; FSDP
/// casts what it gathers. docs/memory.md lists the parts.
MemoryRules memory_rules();

}  // namespace commlens::pytorch
