#pragma once
#include <cstdint>

#include "commlens/engine/data_parallel.hpp"
#include "commlens/engine/groups.hpp"
#include "commlens/engine/loss_scaler.hpp"
#include "commlens/engine/train.hpp"

namespace commlens::engine {

/// AdamW with decoupled weight decay (arXiv 1711.05101) on the fp32 values each rank owns; biases and norms
/// do not decay.
class Optimizer {
 public:
  /// Both references outlive it.
  Optimizer(const Job& job, const TrainOptions& options, DataParallel& parameters, RankGroups& groups);

  struct Step {
    double norm = 0;  // of the mean gradient before clipping; 0 when the job does not clip
    double learning_rate = 0;
    double loss_scale = 1;  // that the gradients were multiplied by
    bool skipped = false;   // gradients of some rank overflowed: nothing was updated
  };
  /// One update from the summed gradients of all data ranks in iteration `iteration`, 0 the first. Schedule
  /// and moments count the iterations that were not skipped. Throws SystemError when gradients overflow at
  /// the least loss scale.
  Step step(std::int64_t iteration);

  /// Of the next iteration.
  const LossScaler& scaler() const { return scaler_; }
  void restore(const LossScaler::State& state) { scaler_.restore(state); }

 private:
  double global_norm();
  bool overflowed();
  void update(UnitStorage& unit, std::size_t chunk, std::int64_t step, double gradient_scale);

  double clipping_;
  int stage_;
  TrainOptions options_;
  LossScaler scaler_;
  DataParallel& parameters_;
  RankGroups& groups_;
};

}  // namespace commlens::engine
