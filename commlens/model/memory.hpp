#pragma once
#include "commlens/base/units.hpp"
#include "commlens/model/job.hpp"

namespace commlens {

/// Bytes one rank holds (the most loaded stage). Model states of mixed precision with Adam: parameters and
/// gradients in the model dtype, 12 bytes of fp32 master weights and moments per parameter (16 in all for
/// fp32 training: 4+4+8). Source: ZeRO, arXiv 1910.02054 §3; activations: Korthikanti et al., arXiv
/// 2205.05198, eqs 1-6.
struct MemoryEstimate {
  Bytes parameters;
  Bytes gradients;
  Bytes optimizer;
  Bytes activations;
  Bytes total() const { return parameters + gradients + optimizer + activations; }
};

MemoryEstimate memory_per_rank(const Job& job);

}  // namespace commlens
