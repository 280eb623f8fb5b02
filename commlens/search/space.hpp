#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "commlens/simulate/training_run.hpp"

namespace commlens {

/// Which layouts are tried. What no model or batch can be divided by is never tried.
struct SearchSpace {
  std::vector<DataParallelKind> kinds;        // in the order in which they are tried
  std::int64_t largest_micro_batch = 128;     // sequences
  std::int64_t shortest_context = 1024;       // tokens of a sequence that a context rank has at least
  bool has_every_shard_group = false;         // else all data ranks, and those inside a domain
  bool has_separate_overlaps = false;         // of gradients and of parameters; else both or none
  bool has_host_optimizer_of_shards = false;  // the host updates parameters that are sharded
  bool needs_data_ranks = false;              // another space has the layouts of one data rank
};

/// How the devices of a job are divided.
struct Degrees {
  std::int64_t tensor = 1;
  std::int64_t context = 1;
  std::int64_t pipeline = 1;
  std::int64_t data = 1;
  friend bool operator==(const Degrees&, const Degrees&) = default;
};

/// Ranks that a mixture's experts, and each of them, are divided over.
struct ExpertDegrees {
  std::int64_t expert = 1;
  std::int64_t tensor = 1;
  friend bool operator==(const ExpertDegrees&, const ExpertDegrees&) = default;
};

/// A kind of data parallelism, and over how many of its ranks it shards (0: all).
struct DataKind {
  DataParallelKind kind = DataParallelKind::replicated;
  std::int64_t group = 0;
  friend bool operator==(const DataKind&, const DataKind&) = default;
};

/// Choices without a degree.
struct LayoutSwitches {
  bool has_sequence_parallel = false;
  bool overlaps_tensor = false;
  bool overlaps_exchange = false;
  friend bool operator==(const LayoutSwitches&, const LayoutSwitches&) = default;
};

/// The divisors of a positive number, ascending.
std::vector<std::int64_t> divisors_of(std::int64_t value);

/// Layers of a model whose stages all have as many as the fullest of these: what times and memory of stages
/// that are not equal are taken for.
std::int64_t padded_layers(std::int64_t layers, std::int64_t pipeline);

/// All that multiply to the run's devices: tensor ranks divide heads and the feed-forward network, context
/// ranks both halves of the sequence, data ranks the batch; stages the layers, or padding them adds no more
/// than a tenth.
std::vector<Degrees> degrees_of(const TrainingRun& run, const SearchSpace& space);

/// Of a mixture; else one.
std::vector<ExpertDegrees> expert_degrees_of(const TrainingRun& run, const Degrees& degrees);

/// Sharded parameters go without a pipeline, which would gather them for every micro-batch; with one rank
/// nothing is shared, and the first kind stands for all.
std::vector<DataKind> data_kinds_of(const TrainingRun& run, const SearchSpace& space, const Degrees& degrees);

std::vector<std::int64_t> micro_batches_of(const TrainingRun& run, const SearchSpace& space,
                                           const Degrees& degrees);

/// Chunks of a stage: they divide its layers, and stages the micro-batches (Megatron-LM
/// megatron/core/pipeline_parallel/schedules.py).
std::vector<std::int64_t> virtual_stages_of(const TrainingRun& run, const Degrees& degrees,
                                            std::int64_t micro_batches);

/// Tensor messages hide only under sequence parallelism, which a mixture on tensor ranks always has
/// (Megatron-LM megatron/training/arguments.py).
std::vector<LayoutSwitches> switches_of(const TrainingRun& run, const Degrees& degrees,
                                        const ExpertDegrees& experts);

/// Why the run's layout is not in the space; empty: it is.
std::string why_not(const TrainingRun& run, const SearchSpace& space);

/// Makes the layout of the run this one; `layers` of the model are padded for its stages.
void set_degrees(TrainingRun& run, std::int64_t layers, const Degrees& degrees, const ExpertDegrees& experts);
void set_kind(TrainingRun& run, const SearchSpace& space, const DataKind& kind);
void set_switches(TrainingRun& run, const LayoutSwitches& switches);

}  // namespace commlens
