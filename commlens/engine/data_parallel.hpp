#pragma once
#include <cstdint>
#include <vector>

#include "commlens/engine/groups.hpp"
#include "commlens/engine/tensor_comm.hpp"
#include "commlens/engine/unit_storage.hpp"
#include "commlens/frameworks/commlens/options.hpp"

namespace commlens::engine {

/// Options for how, not which, calls of a step are issued.
struct Overlap {
  bool gathers = true;     // ZeRO-3: the next module's units are gathered while this one computes
  bool reductions = true;  // gradients are reduced during backward
};

/// Parameters and gradients of a rank's chunks under DDP and ZeRO 1-3 and ZeRO++: gathers, reduces and shards
/// the units as described in docs/training.md. The executor calls it around each module of each micro-batch.
class DataParallel {
 public:
  /// Allocates everything, zeroed. `groups` outlives it.
  DataParallel(const Job& job, std::vector<HeldChunk> chunks, RankGroups& groups, const Overlap& overlap,
               torch::Device device);

  const HeldChunk& chunk(std::size_t index) const { return chunks_[index].held; }
  std::size_t chunk_count() const { return chunks_.size(); }
  std::vector<UnitStorage>& units(std::size_t chunk) { return chunks_[chunk].units; }
  /// The parameters of a module, in its order; to be used between before_… and after_….
  std::vector<torch::Tensor> parameters(std::size_t chunk, std::size_t module) const;

  void begin_iteration();
  void before_forward(std::size_t chunk, std::size_t module);
  /// `stays`: backward of the same module follows at once.
  void after_forward(std::size_t chunk, std::size_t module, bool stays);
  void before_backward(std::size_t chunk, std::size_t module);
  /// `is_last`: of the last micro-batch of this step.
  void after_backward(std::size_t chunk, std::size_t module, bool is_last);
  /// After the last module of a chunk's backward.
  void end_backward(std::size_t chunk);
  /// Waits for all reductions; then UnitStorage::owned_gradient is the sum over data ranks, micro-batches
  /// and, for tied embeddings, both ends of the pipeline.
  void finish_gradients();
  /// Distributes the updated values to all data ranks.
  void share_updated();

 private:
  struct Reduction {
    UnitStorage* unit = nullptr;
    TensorWork work;
    torch::Tensor shard;  // the result; undefined: in place
  };
  struct Chunk {
    HeldChunk held;
    std::vector<UnitStorage> units;
    std::vector<std::vector<std::size_t>> of_module;  // stages 0-2: all units it touches; 3: those it gathers
    std::vector<std::int64_t> modules_left;           // per unit, until its gradients are complete
  };
  struct Gather {
    TensorWork work;
    torch::Tensor bytes;  // quantised gathers
    bool is_for_backward = false;
    bool is_under_way = false;
  };

  Gather& gather_of(std::size_t chunk, std::size_t unit) { return gathers_[chunk][unit]; }
  void start_gather(std::size_t chunk, std::size_t unit, bool is_for_backward);
  void finish_gather(std::size_t chunk, std::size_t unit);
  void gather_module(std::size_t chunk, std::size_t module, std::int64_t next, bool is_for_backward);
  void reduce(UnitStorage& unit);
  torch::Tensor quantized_reduction(const UnitStorage& unit);
  torch::Tensor quantized_hop(Communicator& group, const torch::Tensor& parts, std::string_view tag);
  void finish_reductions();
  void take(Reduction& reduction);
  void sum_tied();

  int stage_;
  trainer::Options options_;
  TrainConfig train_;
  Overlap overlap_;
  Completion gathered_;  // of gathers whose result is needed soon
  RankGroups& groups_;
  std::vector<Chunk> chunks_;
  std::vector<std::vector<Gather>> gathers_;  // per chunk and unit
  std::vector<Reduction> reductions_;         // under way
};

}  // namespace commlens::engine
