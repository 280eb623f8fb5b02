#pragma once
#include <cstdint>
#include <limits>

#include "commlens/engine/torch.hpp"
#include "commlens/transport/communicator.hpp"

namespace commlens::engine {

/// Mean cross entropy over tokens whose vocabulary is split over `tp` (Megatron-LM, arXiv 1909.08053 §3):
/// three all_reduces of one fp32 per token. Null or one rank: none.
///   logits   [tokens, V / t], contiguous; overwritten: the only memory of their size this takes is theirs
///   targets  int64 [tokens], ids of the whole vocabulary, below `vocab`
///   vocab    ids of the tokenizer; columns of ids from here on are padding: they get no probability and no
///   gradient,
///            so that the loss does not depend on how far a layout pads the vocabulary
/// Returns a scalar in fp32 (fp64 for logits of fp64), the same on all tensor ranks. The loss may be
/// differentiated once.
torch::Tensor cross_entropy(const torch::Tensor& logits, const torch::Tensor& targets, Communicator* tp,
                            std::int64_t vocab = std::numeric_limits<std::int64_t>::max());

}  // namespace commlens::engine
