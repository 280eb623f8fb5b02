#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "commlens/frameworks/torch/ddp.hpp"
#include "commlens/frameworks/torch/fsdp.hpp"
#include "commlens/plan/model_work.hpp"

namespace commlens::pytorch {

/// One pipeline stage (of the whole model, without pipeline) as a rank runs it: the messages inside its
/// modules (tensor and context parallel), those of its shards around them, and what it computes.
class Stage {
 public:
  /// `stage` of `stages`. `out` and `groups` outlive it.
  Stage(ProgramBuilder& out, const Groups& groups, std::int64_t stage, std::int64_t stages);
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

  void forward();
  void backward();

  const std::vector<Module>& modules() const { return modules_; }
  /// Elements of parameters that this rank updates.
  Elements updated() const;
  /// Gradients are reduced by DDP, which outlives the stage.
  void attach(DataParallel* ddp) { ddp_ = ddp; }
  /// Null without FSDP.
  ShardedStage* shards() { return shards_.get(); }
  bool is_first() const { return modules_.front().kind == Module::Kind::embedding; }
  bool is_last() const { return modules_.back().kind == Module::Kind::output; }
  /// Elements of what it sends to the next stage for a micro-batch, and their type.
  Elements boundary() const;
  DType activation_dtype() const { return activation_dtype_; }

 private:
  void forward_messages(const Module& module);
  void backward_messages(std::size_t at);
  /// What the modules from this one on take: of a later stage it always does.
  bool input_needs_gradient(std::size_t module) const;
  void forward_block(const Module& module, bool is_recomputed);
  /// What a block computes again before its backward pass.
  void recompute(const Module& module);
  void backward_block(const Module& module, bool input_needs);
  void end_of_inputs(bool is_needed, int linears);
  void forward_output();
  void gather_sequence();
  void scatter_sequence();
  void sum_activations(const Rule& rule);
  void attention_forward();
  void attention_backward();
  void exchange(DType dtype, const Rule& rule);

  ProgramBuilder& out_;
  const Groups& groups_;
  const Job& job_;
  const Options& options_;
  std::vector<Module> modules_;
  DType activation_dtype_;
  std::int64_t tokens_;  // of a micro-batch on one data and context rank
  std::unique_ptr<ShardedStage> shards_;
  DataParallel* ddp_ = nullptr;
  ModelWork work_;
};

}  // namespace commlens::pytorch
