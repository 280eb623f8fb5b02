#pragma once
#include "commlens/simulate/iteration_time.hpp"
#include "commlens/simulate/layer_times.hpp"

namespace commlens {

// The closed form in parts, so that a search works each part out once for all layouts that share it. What a
// part depends on stands with it; iteration_time() puts the same parts together.

/// A layer: by tensor, context, expert and expert-tensor ranks, micro-batch, recomputation, sequence
/// parallelism, messages that computing hides, and whether gradients of micro-batches are added up.
struct LayerCost {
  LayerTime time;
  LayerParameters parameters;
};
LayerCost layer_cost(const TrainingRun& run, const Coefficients& with, bool has_experts);

/// Layers of a device, by kind.
struct StageLayers {
  double dense = 0;
  double mixtures = 0;
};
StageLayers layers_of_stage(const TrainingRun& run);

/// All layers of one device: what is spent on one micro-batch.
struct StageTime {
  double layers = 0;    // how many
  double seconds = 0;   // of them, at least the launch floor
  double exposed = 0;   // of that, messages of tensor parallelism and the like
  double sharding = 0;  // of that, messages of sharded parameters
  LayerParameters parameters;
};
/// Adds `layers` of this cost: by what the cost depends on and, of sharded parameters, their group.
void add_layers(StageTime& stage, const TrainingRun& run, const Coefficients& with, double layers,
                const LayerCost& cost);

/// Messages of data parallelism once for each iteration: by degrees and kind of data parallelism.
struct DataWork {
  double scatter = 0;  // reduction of gradients
  double gather = 0;   // of parameters
  double beside = 0;   // what nothing hides
  bool hides_scatter = false;
  bool hides_gather = false;
};
DataWork data_work(const TrainingRun& run, const Coefficients& with, const LayerParameters& parameters);

/// The update of parameters: by degrees and kind of data parallelism.
double optimizer_seconds(const TrainingRun& run, const Coefficients& with, const LayerParameters& parameters);

/// One message to the next stage: by tensor and context ranks, micro-batch and sequence parallelism; 0
/// without a pipeline.
double stage_message(const TrainingRun& run, const Coefficients& with);

struct IterationParts {
  StageTime stage;
  double logits = 0;  // logits_seconds(): by tensor and context ranks and micro-batch
  DataWork data;
  double optimizer = 0;
  double message = 0;
};
/// The iteration that these parts of the run make.
IterationTime combined(const TrainingRun& run, const Coefficients& with, const IterationParts& parts);

}  // namespace commlens
