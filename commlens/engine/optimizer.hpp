#pragma once
#include <cstdint>

#include "commlens/engine/data_parallel.hpp"
#include "commlens/engine/groups.hpp"
#include "commlens/engine/train.hpp"

namespace commlens::engine {

/// AdamW with decoupled weight decay (arXiv 1711.05101) on the fp32 values each rank owns; biases and norms
/// do not decay.
class Optimizer {
 public:
  /// Both references outlive it.
  Optimizer(const Job& job, const TrainOptions& options, DataParallel& parameters, RankGroups& groups);

  /// One update from the summed gradients of all data ranks; step 0 is the first. Returns the global norm of
  /// the mean gradient before clipping, or 0 when the job does not clip.
  double step(std::int64_t step);

  double learning_rate(std::int64_t step) const;

 private:
  double global_norm();
  void update(UnitStorage& unit, std::size_t chunk, std::int64_t step, double gradient_scale);

  double clipping_;
  int stage_;
  TrainOptions options_;
  DataParallel& parameters_;
  RankGroups& groups_;
};

}  // namespace commlens::engine
