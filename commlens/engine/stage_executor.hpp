#pragma once
#include <cstdint>
#include <vector>

#include "commlens/engine/data_parallel.hpp"
#include "commlens/engine/groups.hpp"
#include "commlens/engine/layers/module_forward.hpp"
#include "commlens/model/job.hpp"
#include "commlens/plan/schemes/pipeline.hpp"
#include "commlens/trace/recorder.hpp"

namespace commlens::engine {

/// Tokens and targets of one micro-batch, int64 [batch, sequence], on the device.
struct MicroBatch {
  torch::Tensor tokens;
  torch::Tensor targets;
};

/// Runs a step's micro-batches through the modules of one pipeline stage, forward and backward, with
/// recomputation, and exchanges activations and gradients with the neighbouring stages. Gradients end up in
/// `parameters`.
class StageExecutor {
 public:
  /// All references outlive it; `recorder` may be null.
  StageExecutor(const Job& job, const LayerContext& layers, DataParallel& parameters, RankGroups& groups,
                Recorder* recorder);

  /// All micro-batches of a step. Returns the sum of their losses over this rank's micro-batches divided by
  /// their number, on the stage that holds the head; else 0.
  /// The gradients are those of the loss times `loss_scale`.
  double run(const std::vector<MicroBatch>& batches, double loss_scale = 1);

 private:
  /// Tensors that one module keeps of one micro-batch between forward and backward.
  struct Kept {
    torch::Tensor input;   // a leaf; partitioned under partition_activations
    torch::Tensor output;  // with its graph; undefined when it is computed again
  };
  struct Passage {  // one micro-batch in one chunk
    std::vector<Kept> kept;
    TensorWork sent;  // the activations; waited for when their gradient came back
    TensorWork sent_gradient;
  };

  std::vector<ComputeStep> order() const;
  void forward(std::int64_t micro_batch, std::int64_t chunk, const MicroBatch& batch);
  void backward(std::int64_t micro_batch, std::int64_t chunk, const MicroBatch& batch, bool is_last);
  torch::Tensor run_module(std::int64_t chunk, std::size_t module, const torch::Tensor& input,
                           const MicroBatch& batch);
  torch::Tensor run_again(std::int64_t chunk, std::size_t module, Kept& kept, const MicroBatch& batch);
  torch::Tensor kept_input(const torch::Tensor& input) const;
  torch::Tensor whole_input(const torch::Tensor& kept) const;
  torch::Tensor receive(Communicator& group, std::int64_t from, std::string_view tag) const;
  void set_phase(Phase phase, std::int64_t micro_batch);
  bool is_first_part(std::int64_t chunk) const { return chunk == 0 && stage_ == 0; }
  bool is_last_part(std::int64_t chunk) const { return chunk + 1 == chunks_ && stage_ + 1 == stages_; }

  const Job& job_;
  const LayerContext& layers_;
  DataParallel& parameters_;
  RankGroups& groups_;
  Recorder* recorder_;
  std::int64_t stage_;
  std::int64_t stages_;
  std::int64_t chunks_;
  std::vector<std::vector<Passage>> passages_;  // [chunk][micro-batch]
  double loss_ = 0;
  double loss_scale_ = 1;
};

}  // namespace commlens::engine
