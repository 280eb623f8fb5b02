#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "commlens/frameworks/torch/stage.hpp"
#include "commlens/plan/model_work.hpp"

namespace commlens::pytorch {

/// A stage of the module trees that case files describe (stage_modules), split by DTensor and by context
/// parallelism as PyTorch's own examples do it.
class TreeStage : public Stage {
 public:
  /// `stage` of `stages`. `out` and `groups` outlive it.
  TreeStage(ProgramBuilder& out, const Groups& groups, std::int64_t stage, std::int64_t stages);

  void forward() override;
  void backward() override;
  const std::vector<Module>& modules() const override { return modules_; }
  Elements updated() const override;
  ShardedStage* shards() override { return shards_.get(); }
  Elements boundary() const override;
  DType activation_dtype() const override { return activation_dtype_; }
  void attach(DataParallel* ddp) override { ddp_ = ddp; }

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
