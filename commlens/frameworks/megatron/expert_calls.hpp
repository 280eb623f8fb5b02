#pragma once
#include <functional>
#include <string_view>

#include "commlens/frameworks/megatron/behaviour.hpp"
#include "commlens/frameworks/megatron/groups.hpp"
#include "commlens/frameworks/megatron/modules.hpp"
#include "commlens/frameworks/megatron/options.hpp"
#include "commlens/frameworks/megatron/tensor_calls.hpp"
#include "commlens/plan/model_work.hpp"

namespace commlens::megatron {

/// Whether the router's pass is one of training with gradients, the first one of what is computed again, or
/// one of an evaluation.
enum class RouterPass : std::uint8_t { with_gradients, without_gradients, evaluation };

/// What a mixture of experts sends for one micro-batch, besides its shared experts: the balancing losses of
/// the router, dispatch and combination of tokens. T = b s / c (/ t under sequence parallelism) tokens of
/// this rank. Source: core/transformer/moe/{router,token_dispatcher}.py.
class ExpertCalls {
 public:
  /// All outlive it.
  ExpertCalls(ProgramBuilder& out, const MegatronGroups& groups, const Job& job);

  void route(RouterPass pass) const;
  /// What the balancing loss adds to the backward pass of the router.
  void route_gradient() const;
  /// Counts of tokens, ahead of the exchange.
  void count_tokens() const;
  /// Tokens there, the experts, results back; `compute` writes the experts' kernels.
  /// `between` what is done while tokens are dispatched (Behaviour::SharedExperts).
  void forward(const std::function<void()>& compute, const std::function<void()>& between) const;
  void backward(const std::function<void()>& compute, const std::function<void()>& between) const;

  // The parts of the alltoall dispatcher, one after the other forward and backward.
  bool is_alltoall() const { return options_.moe_dispatcher == "alltoall"; }
  void dispatch() const;
  void run(const std::function<void()>& compute) const;
  void combine() const;
  void combine_gradient() const;
  void run_backward(const std::function<void()>& compute) const;
  void dispatch_gradient() const;

 private:
  struct ExpertTags {
    std::string_view there;
    std::string_view gathered;
    std::string_view scattered;
    std::string_view back;
  };
  bool gathers_scores() const;
  DType type_of_scores() const;
  DType type_of_outputs() const;
  bool has_equal_sizes() const { return options_.pads_to_capacity && options_.expert_capacity > 0; }
  /// Elements of what a token takes along, of all tokens that are sent.
  std::int64_t routed(std::int64_t width) const;
  void exchange(std::int64_t width, DType dtype, std::string_view tag) const;
  void gather_over_tensor_ranks(std::int64_t width, DType dtype, std::string_view tag) const;
  void scatter_over_tensor_ranks(std::int64_t width, DType dtype, std::string_view tag) const;
  void gather_all(std::int64_t width, DType dtype, std::string_view tag) const;
  void scatter_all(std::int64_t width, DType dtype, std::string_view tag) const;

  ProgramBuilder& out_;
  const MegatronGroups& groups_;
  const Job& job_;
  const Options& options_;
  const Behaviour& behaviour_;
  ModuleShares shares_;
  std::int64_t tokens_;  // T
  std::int64_t width_;   // of a token, latent or hidden
  DType probability_;    // dtype of probabilities
};

}  // namespace commlens::megatron
