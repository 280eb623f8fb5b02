#pragma once
#include "commlens/frameworks/memory_rules.hpp"

namespace commlens::torchtitan {

/// What a rank of torchtitan's Trainer holds: shards of fp32 states, units of FSDP2 in flight, what autograd
/// or selective recomputation keeps of a block, the logits of one chunk. docs/memory.md lists the parts.
MemoryRules memory_rules();

}  // namespace commlens::torchtitan
