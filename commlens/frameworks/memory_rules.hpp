#pragma once
#include <cstdint>

#include "commlens/base/units.hpp"
#include "commlens/frameworks/memory_parts.hpp"
#include "commlens/model/job.hpp"

namespace commlens {

/// What one framework's ranks hold otherwise than others' (memory.hpp). Null: as the others.
struct MemoryRules {
  std::int64_t (*gradient_bytes)(const Job& job) = nullptr;  // of one element; null: as the model's
  /// Buckets and gathered parameters while a module of `module` elements is at work; null: none.
  Bytes (*buffers)(const Job& job, const HeldStage& stage, std::int64_t module) = nullptr;
  std::int64_t (*layers_recomputed_at_once)(const Job& job) = nullptr;  // null: 1
  bool keeps_small_parameters = false;                  // gathered under ZeRO-3, by the persistence threshold
  std::int64_t (*most_kept)(const Job& job) = nullptr;  // elements in all; null: no limit
  /// How the mixtures of a model are made where ModelConfig does not say it: the share of layers that are
  /// one, the width of their shared experts. Null: as ModelConfig has them.
  ExpertLayers (*expert_layers)(const Job& job) = nullptr;
  /// Takes away what selective recomputation computes again; null: the scores of attention.
  void (*drop_recomputed)(const Job& job, KeptActivations& kept) = nullptr;
  /// What a rank of a stage holds; null: `held_by_stage`.
  HeldStage (*held)(const Job& job, std::int64_t stage) = nullptr;
  /// The whole estimate of a stage, instead of the common one.
  MemoryEstimate (*of_stage)(const Job& job, std::int64_t stage) = nullptr;
  bool fuses_attention_of_llama = true;  // unless the configuration sets it
};

}  // namespace commlens
