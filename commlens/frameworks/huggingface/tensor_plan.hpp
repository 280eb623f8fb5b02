#pragma once
#include "commlens/frameworks/torch/groups.hpp"
#include "commlens/model/job.hpp"
#include "commlens/plan/model_work.hpp"

namespace commlens::huggingface {

/// What the tp_plan of a model splits over the tensor ranks (`base_model_tp_plan` in
/// models/TYPE/configuration_TYPE.py of transformers 5.23); without tensor ranks nothing.
struct TensorPlan {
  bool splits_attention = false;  // heads
  bool splits_mlp = false;        // the width of MLPs and shared experts
  bool splits_experts = false;    // the width of each expert
};
TensorPlan tensor_plan(const Job& job);

/// The messages between tensor ranks of a model that is split by its plan (transformers
/// distributed/tensor_parallel.py), and what is computed between them. Sequences are whole on each rank.
class TensorModel {
 public:
  /// All outlive it.
  TensorModel(ProgramBuilder& out, const pytorch::Groups& groups) : out_(out), groups_(groups), work_(out) {
    plan_ = tensor_plan(out.job());
  }

  void forward_embedding();
  void forward_block(std::int64_t layer);
  /// Norm, logits and loss.
  void forward_head();
  void backward_head();
  void backward_block(std::int64_t layer);
  void backward_embedding();

 private:
  void sum(std::int64_t elements, const Rule& rule, std::string_view tag);
  void sum_routing_weights();
  void sum_hidden(const Rule& rule);
  void recompute(std::int64_t layer);
  void forward_mlp(std::int64_t layer, bool is_recomputed);
  void backward_mlp(std::int64_t layer);
  void backward_attention();
  DType dtype() const;
  std::int64_t tokens() const;

  ProgramBuilder& out_;
  const pytorch::Groups& groups_;
  TensorPlan plan_;
  ModelWork work_;
};

}  // namespace commlens::huggingface
