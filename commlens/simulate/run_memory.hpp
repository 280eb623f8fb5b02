#pragma once
#include "commlens/simulate/training_run.hpp"

namespace commlens {

// Memory of a device in parts, so that a search works each part out once; memory_bytes_of()
// (iteration_time.hpp) puts the same parts together. An estimate: fragmentation is a stated share.

/// Weights, gradients and Adam's states of one parameter that data-parallel ranks share, by their kind: 14 +
/// r replicated, 2 + r + 12/d with the optimizer split, r being the bytes of a reduced gradient, 4 + 12/g
/// with owners, 2 + 14/g and 16/g sharded (Megatron-LM theoretical_memory_usage.py:293-296, arXiv
/// 1910.02054).
double parameter_bytes(const TrainingRun& run);

/// Of all parameters of the fullest stage.
double state_bytes(const TrainingRun& run);

/// Activations that one layer keeps of one micro-batch (Korthikanti et al., arXiv 2205.05198, with the
/// model's widths for their 4 h): s b h (10 + 24/t + 5 a s/(h t)), 8 instead of 10 in gated models, which
/// have no dropout; of full recomputation its input.
double layer_activation_bytes(const TrainingRun& run, bool has_experts);

/// What one micro-batch takes: by tensor, context and expert ranks, micro-batch, recomputation, sequence
/// parallelism, and whether parameters are sharded.
struct MicroBatchMemory {
  double layer = 0;      // activations of one layer, of the fuller kind
  double embedding = 0;  // of the first stage
  double logits = 0;     // of the last stage
  double working = 0;    // once: a layer that is computed again, gathered parameters
};
MicroBatchMemory micro_batch_memory(const TrainingRun& run);

/// Layers of a device times micro-batches that hold activations at the fullest moment of 1F1B (interleaved
/// where stages have chunks), of the first and of the last stage; and embeddings of the first.
struct LayersInFlight {
  double first = 0;
  double last = 0;
  double embeddings = 0;
};
LayersInFlight layers_in_flight(const TrainingRun& run);

/// The fuller of both stages.
double device_memory_bytes(bool has_pipeline, double states, const MicroBatchMemory& memory,
                           const LayersInFlight& in_flight);

}  // namespace commlens
