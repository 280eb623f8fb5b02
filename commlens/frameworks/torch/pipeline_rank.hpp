#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <tuple>
#include <vector>

#include "commlens/base/result.hpp"
#include "commlens/frameworks/torch/behaviour.hpp"
#include "commlens/frameworks/torch/ddp.hpp"
#include "commlens/frameworks/torch/pipeline_connections.hpp"
#include "commlens/frameworks/torch/stage.hpp"

namespace commlens::pytorch {

/// Makes one stage of a pipeline.
using MakeStage = std::function<std::unique_ptr<Stage>(std::int64_t stage)>;

/// What one rank of a pipeline sends and computes: torch.distributed.pipelining over modules that may be
/// sharded, reduced by DDP or split by tensor ranks.
class PipelineRank {
 public:
  /// `out` and `groups` outlive it; so do `actions`, those of the rank in a schedule that has several stages
  /// on each.
  PipelineRank(ProgramBuilder& out, const Groups& groups, const PipelineShape& shape, std::int64_t rank,
               std::span<const PipelineAction> actions);
  /// Makes the rank's stages.
  void add_stages(const MakeStage& make);

  /// What is written is not what the framework does if that fails.
  Result<void> check() const;

  /// What happens before the first step. The first rank of a tensor group sends others their weights.
  void initialise(bool is_tensor_root);
  /// One run of the schedule; the first one makes the connections.
  void step();

  struct Local {
    std::int64_t index;
    std::unique_ptr<Stage> stage;
    std::unique_ptr<DataParallel> ddp;
    std::int64_t gradient_passes = 0;  // in this step, that complete the gradients of a micro-batch
    bool is_prepared = false;          // DDP's reducer, without a backward pass that autograd accumulates
  };
  const std::vector<Local>& stages() const { return stages_; }

 private:
  Local& local(std::int64_t stage);

  void message(PipelineAction::Kind kind, std::int64_t stage, std::int32_t micro_batch,
               Waiting waiting = Waiting::at_once);
  void wait_for_sends();
  /// What a pass of a stage takes from another rank.
  void wait_for_receive(bool is_forward, std::int64_t stage, std::int32_t micro_batch);

  void forward(std::int64_t stage, std::int32_t micro_batch);
  void backward(std::int64_t stage, std::int32_t micro_batch);
  /// Gradients are divided by the micro-batches.
  void scale(const Local& own);
  /// The half of a backward pass that the stage before waits for; the first stage does all in the other half.
  /// DDP does not notice halves: gradients of the weights are not accumulated by autograd
  /// (pipelining/_backward.py, stage_backward_weight).
  void backward_input(std::int64_t stage, std::int32_t micro_batch);
  void backward_weight(std::int64_t stage, std::int32_t micro_batch);
  static void set_flags(Local& own);
  void reduce(Local& own);

  void first_step();
  /// A pickled object: its size, then its bytes.
  void object(std::int64_t other, bool sends);
  /// A forward and a backward pass of one micro-batch without reductions, to learn what stages send.
  void infer_shapes();

  void finish_single();

  void gpipe();

  void one_f_one_b();

  void runtime();
  void perform(const PipelineAction& each);

  ProgramBuilder& out_;
  const Job& job_;
  const Options& options_;
  PipelineShape shape_;
  std::int64_t rank_;
  std::span<const PipelineAction> actions_;
  const Behaviour& behaviour_;
  const Groups& groups_;
  PipelineConnections connections_;
  std::vector<Local> stages_;
  std::vector<StepIndex> sends_;  // under way
  std::map<std::tuple<bool, std::int64_t, std::int32_t>, StepIndex>
      receives_;  // forward?, stage, micro-batch
  bool has_started_ = false;
  bool has_failed_ = false;
};

}  // namespace commlens::pytorch
