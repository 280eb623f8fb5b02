#pragma once
#include "commlens/simulate/coefficients.hpp"
#include "commlens/simulate/training_run.hpp"

namespace commlens {

/// Seconds of one pass of one layer over one micro-batch, on one device.
struct PassTime {
  double gemm = 0;
  double attention = 0;
  double memory = 0;
  double launch = 0;
  double tensor = 0;      // messages of tensor parallelism that nothing hides
  double context = 0;     // of context parallelism
  double exchange = 0;    // of experts
  double accumulate = 0;  // of gradients over micro-batches
  double total() const {
    return gemm + attention + memory + launch + tensor + context + exchange + accumulate;
  }
};

/// A layer: forward, what is repeated of it, backward.
struct LayerTime {
  PassTime forward;
  PassTime repeated;
  PassTime backward;
};

/// What a device computes with, from its data sheet and the coefficients.
ComputeRates rates_of(const RunHardware& hardware, const Coefficients& with);

/// A dense layer, or one of the mixture of experts.
LayerTime layer_time(const TrainingRun& run, const Coefficients& with, bool has_experts);

/// Weights of the projections of a layer's attention, on all tensor ranks, and the dimension of its heads, of
/// latent attention the mean of queries' and values'.
double projection_weights(const TrainingRun& run);
std::int64_t attention_dimension(const RunModel& model);

/// The output projection and the loss of one micro-batch, all passes.
double logits_seconds(const TrainingRun& run, const Coefficients& with);

/// Parameters of a layer on one device: those that data-parallel ranks share, and those of its experts.
struct LayerParameters {
  double shared = 0;
  double experts = 0;
};
LayerParameters layer_parameters(const TrainingRun& run, bool has_experts);

}  // namespace commlens
