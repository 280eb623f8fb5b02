#pragma once
#include "commlens/simulate/coefficients.hpp"
#include "commlens/simulate/training_run.hpp"

namespace commlens {

/// Seconds of one iteration, and what they consist of.
struct IterationTime {
  double compute = 0;  // layers and logits of all micro-batches, with what is repeated and launches
  double tensor = 0;   // messages of tensor and context parallelism and of experts that nothing hides
  double bubble = 0;   // waiting of the pipeline
  double stages = 0;   // messages between its stages that nothing hides
  double data = 0;     // messages of data parallelism that nothing hides, and what hiding them costs
  double optimizer = 0;
  double other = 0;  // of each micro-batch, of each iteration, stragglers
  double total() const { return compute + tensor + bubble + stages + data + optimizer + other; }
};

/// The closed form of docs/time-model.md#iterations.
IterationTime iteration_time(const TrainingRun& run, const Coefficients& with);

/// Floating-point operations that the model's mathematics take in an iteration, of one device: three passes,
/// no recomputation, the experts that a token uses, attention over all pairs of tokens (Narayanan et al.,
/// arXiv 2104.04473), as frameworks print an MFU.
double model_flops(const TrainingRun& run);

/// Those of them that a causal mask leaves to be computed: half of attention's pairs. No time is shorter than
/// these at the peak.
double computed_flops(const TrainingRun& run);

/// FLOP/s of a device's dense products in the run's precision: fp8 twice and fp4 four times those of 16 bit.
double peak_of_precision(const TrainingRun& run);

/// Bytes of a device's memory that an iteration takes: states by their data-parallel kind and activations
/// (docs/memory.md), an estimate without fragmentation.
double memory_bytes_of(const TrainingRun& run);

}  // namespace commlens
