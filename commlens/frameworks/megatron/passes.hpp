#pragma once
#include <functional>
#include <string_view>

#include "commlens/frameworks/megatron/context_calls.hpp"
#include "commlens/frameworks/megatron/expert_calls.hpp"
#include "commlens/frameworks/megatron/stage_layout.hpp"
#include "commlens/frameworks/megatron/tensor_calls.hpp"

namespace commlens::megatron {

/// What one model chunk computes and sends for one micro-batch besides pipeline messages and batches.
/// Messages are waited for at once but those of a column-parallel matrix's backward pass, which run beside
/// its weight gradient. Source: core/transformer/transformer_layer.py, core/models/gpt/gpt_model.py.
class ChunkPasses {
 public:
  /// Called with the place of a module: ahead of its forward pass, or once its gradients are complete.
  using Hook = std::function<void(const ModulePlace&)>;

  /// All but the layout outlive it.
  ChunkPasses(ProgramBuilder& out, const MegatronGroups& groups, const Job& job, ChunkLayout chunk);

  void forward(std::int32_t micro_batch, const Hook& before);
  void backward(std::int32_t micro_batch, const Hook& finished);
  /// The forward pass of one micro-batch between the parts of the backward pass of another
  /// (overlap-moe-expert-parallel-comm). Only where `can_combine`.
  void combined(std::int32_t forward, const Hook& before, std::int32_t backward, const Hook& finished);
  bool can_combine() const;
  /// Without the calls of training alone.
  void evaluate(std::int32_t micro_batch);

 private:
  void embed();
  void forward_layer(std::int64_t layer, bool has_gradients);
  void forward_attention(std::int64_t layer);
  void forward_latent_attention(std::int64_t layer);
  void forward_up_projections();
  void forward_mlp(std::int64_t layer, bool has_gradients);
  void forward_experts(std::int64_t layer, bool has_gradients);
  void forward_shared(std::int64_t layer);
  void forward_ahead_of_experts(std::int64_t layer);
  void backward_ahead_of_experts(std::int64_t layer);
  void compute_experts(std::int64_t layer);
  void compute_experts_backward(std::int64_t layer);
  void route(std::int64_t layer, bool has_gradients);
  void forward_mtp(std::int64_t layer);
  void forward_mtp_layer(std::int64_t layer, bool has_gradients);
  void forward_head();
  void cross_entropy();
  void measure_accuracy();

  void backward_layer(std::int64_t layer);
  void backward_attention(std::int64_t layer);
  void backward_latent_attention(std::int64_t layer);
  void backward_mlp(std::int64_t layer);
  void backward_experts(std::int64_t layer);
  void backward_shared(std::int64_t layer);
  void backward_mtp(std::int64_t layer);
  void backward_head();
  void backward_layers();
  void recompute(std::int64_t first, std::int64_t count);

  bool recomputes_all(std::int64_t layer) const;
  bool recomputes(std::string_view module) const;
  void forward_scores(std::int64_t layer);
  void backward_scores(std::int64_t layer);
  bool is_moe(std::int64_t layer) const;
  bool overlaps_shared() const;
  bool runs_shared(Behaviour::SharedExperts place) const;
  void use(Module module, std::int64_t layer) const;
  void finish(Module module, std::int64_t layer) const;
  std::function<void(Pass)> kernels(ModulePart part);

  ProgramBuilder& out_;
  const MegatronGroups& groups_;
  const Job& job_;
  const Options& options_;
  const Behaviour& behaviour_;
  ChunkLayout chunk_;
  TensorCalls tensor_;  // of layers
  TensorCalls ends_;    // of embedding and head
  ContextCalls context_;
  ExpertCalls experts_;
  ModuleShares shares_;
  ModelWork work_;
  std::int64_t positions_;   // b s / c
  std::int64_t activation_;  // b s h / c
  std::int32_t micro_batch_ = 0;
  bool is_training_ = true;
  const Hook* hook_ = nullptr;  // of the pass under way
};

}  // namespace commlens::megatron
