#pragma once
#include <cstdint>

#include "commlens/base/units.hpp"
#include "commlens/frameworks/memory_parts.hpp"
#include "commlens/model/job.hpp"

namespace commlens {

/// Whether scores are kept: as the configuration sets it, else fused for Llama-type models and eager for
/// others and for our own trainer, which takes the fused kernel of LibTorch where it is asked to and there is
/// one.
Attention attention_of(const Job& job);

/// Of a rank of pipeline stage `stage`, of a validated job.
MemoryEstimate memory_of_stage(const Job& job, std::int64_t stage);

/// As frameworks have it that bring no estimate of their own: mixed precision with ZeRO.
MemoryEstimate common_memory_of_stage(const Job& job, std::int64_t stage);

/// Of the rank that holds most.
MemoryEstimate memory_per_rank(const Job& job);

/// Elements of the parameters that ZeRO-3 keeps gathered on one rank, and how many they are; none at other
/// stages.
struct KeptParameters {
  std::int64_t count = 0;
  Elements elements;
};
KeptParameters kept_gathered(const Job& job);

}  // namespace commlens
