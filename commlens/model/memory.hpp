#pragma once
#include <cstdint>

#include "commlens/base/units.hpp"
#include "commlens/model/job.hpp"

namespace commlens {

/// Bytes one rank holds at its fullest moment; they add up. Fragmentation, workspaces of libraries and the
/// runtime's own memory are not in it.
struct MemoryEstimate {
  /// Model states of mixed precision with Adam: parameters and gradients in the model dtype, 12 bytes of fp32
  /// master weights and moments per parameter (16 in all for fp32 training: 4+4+8). Source: ZeRO, arXiv
  /// 1910.02054 §3. Our trainer adds gradients up in fp32, 4 bytes more.
  Bytes parameters;
  Bytes gradients;
  Bytes optimizer;
  /// Of the layers, kept from forward to backward, of every micro-batch in flight. Source: Korthikanti et
  /// al., arXiv 2205.05198, eqs 1-6; without the scores where attention is fused.
  Bytes activations;
  /// The head's input and logits, with the logits' gradient. Frameworks compute the loss of mixed precision
  /// in fp32, so that the scores stand there twice (arXiv 2205.05198 §4.3 counts 4 bytes a score, and the
  /// gradient comes later); our trainer computes it in place.
  Bytes logits;
  /// Parameters gathered by ZeRO-3, buckets of reductions and what they result in.
  Bytes buffers;
  /// What the module at work needs besides: a layer computed again, gradients that have not been added up.
  Bytes working;

  Bytes states() const { return parameters + gradients + optimizer; }
  Bytes total() const { return states() + activations + logits + buffers + working; }
};

/// Whether scores are kept: as the configuration says, else fused for Llama-type models and eager for others
/// and for our own trainer, which takes the fused kernel of LibTorch where it is asked to and there is one.
Attention attention_of(const Job& job);

/// Of a rank of pipeline stage `stage`, of a validated job.
MemoryEstimate memory_of_stage(const Job& job, std::int64_t stage);

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
