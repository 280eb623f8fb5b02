#include "commlens/frameworks/megatron/expert_calls.hpp"

#include <cmath>

#include "commlens/frameworks/megatron/source.hpp"

namespace commlens::megatron {
namespace {

const Rule k_balancing{
    "megatron.moe_tokens_of_experts",
    k_new_source<"core/transformer/moe/router.py:419 get_tokens_per_expert_and_token_count">};
const Rule k_scores{"megatron.moe_scores",
                    k_source_text<"megatron", Literal{"core_v0.13.0"}, "core/transformer/moe/moe_utils.py">};
const Rule k_quantiles{"megatron.moe_quantiles", k_new_source<"core/transformer/moe/router.py:348">};
const Rule k_counts{"megatron.moe_tokens_per_expert",
                    k_new_source<"core/transformer/moe/token_dispatcher.py:565">};
const Rule k_exchange{"megatron.moe_all_to_all", k_new_source<"core/tensor_parallel/mappings.py:460">};
const Rule k_gather_tokens{"megatron.moe_gather", k_new_source<"core/tensor_parallel/mappings.py:146">};
const Rule k_scatter_tokens{"megatron.moe_reduce_scatter",
                            k_new_source<"core/tensor_parallel/mappings.py:186">};
const Rule k_gather_parts{"megatron.moe_gather_of_tensor_ranks",
                          k_new_source<"core/tensor_parallel/mappings.py:154">};
const Rule k_scatter_parts{"megatron.moe_scatter_of_tensor_ranks",
                           k_new_source<"core/tensor_parallel/mappings.py:197">};

}  // namespace

ExpertCalls::ExpertCalls(ProgramBuilder& out, const MegatronGroups& groups, const Job& job)
    : out_(out),
      groups_(groups),
      job_(job),
      options_(options(job)),
      behaviour_(behaviour(job)),
      shares_(job),
      tokens_(job.train.micro_batch * job.model.sequence / job.layout.cp /
              (shares_.sequence_parallel ? shares_.tp : 1)),
      width_(options_.moe_latent_hidden > 0 ? options_.moe_latent_hidden : job.model.hidden),
      probability_(options_.router_dtype == DType::uint8 ? job.train.dtype : options_.router_dtype) {}

void ExpertCalls::route(RouterPass pass) const {
  const bool sees_sequence = out_.tables().groups.size(groups_.tp_cp) > 1;
  if (sees_sequence && options_.balancing.front() == "quantile_balancing") {
    out_.all_gather(groups_.tp_cp, {tokens_ * job_.model.experts}, DType::fp32, k_quantiles, "router logits");
  }
  const bool is_repeated = pass == RouterPass::without_gradients;
  if (pass == RouterPass::evaluation || (is_repeated && !behaviour_.sums_without_gradients)) {
    return;
  }
  constexpr std::string_view kinds[] = {"aux_loss", "seq_aux_loss", "global_aux_loss"};
  for (const std::string_view kind : kinds) {
    for (std::size_t at = 0; at < options_.balancing.size(); ++at) {
      if (options_.balancing[at] != kind) {
        continue;
      }
      const bool is_active =
          at < options_.balancing_coefficients.size() && options_.balancing_coefficients[at] != 0;
      const GroupId group = kind == "global_aux_loss" ? groups_.tp_dp_cp : groups_.tp_cp;
      const bool is_alone = out_.tables().groups.size(group) == 1;
      if (is_active && gathers_scores()) {
        out_.all_gather(group, {tokens_ * job_.model.experts}, type_of_scores(), k_scores,
                        "scores of tokens");
      } else if ((is_active && !is_alone) || behaviour_.sums_without_coefficient) {
        const std::int64_t rows = kind == "seq_aux_loss" ? job_.train.micro_batch : 1;
        out_.all_reduce(group, {rows * job_.model.experts}, DType::int64, k_balancing, kind);
      }
    }
  }
}

/// For the loss of sequences, in older releases.
bool ExpertCalls::gathers_scores() const {
  return behaviour_.has_one_balance && options_.balancing.front() == "seq_aux_loss" &&
         out_.tables().groups.size(groups_.tp_cp) > 1;
}

DType ExpertCalls::type_of_scores() const {
  return behaviour_.keeps_type_of_scores && options_.has_sigmoid_scores ? probability_ : DType::fp32;
}

void ExpertCalls::route_gradient() const {
  if (gathers_scores() && options_.balancing_coefficients.front() != 0) {
    out_.reduce_scatter(groups_.tp_cp, {tokens_ * job_.model.experts}, type_of_scores(), k_scores,
                        "gradient of scores");
  }
}

void ExpertCalls::count_tokens() const {
  if (is_alltoall() && !has_equal_sizes() && out_.tables().groups.size(groups_.tp_ep) > 1) {
    out_.all_gather(groups_.tp_ep, {job_.model.experts}, DType::int64, k_counts, "tokens per expert");
  }
}

/// Without padding to the capacity a mean over routings.
std::int64_t ExpertCalls::routed(std::int64_t width) const {
  const std::int64_t choices = tokens_ * job_.model.top_k;
  if (!has_equal_sizes()) {
    return choices * width;
  }
  // moe_utils.py:241 get_capacity
  const double share = static_cast<double>(choices) / static_cast<double>(job_.model.experts);
  return job_.model.experts * static_cast<std::int64_t>(std::ceil(share * options_.expert_capacity)) * width;
}

/// Megatron skips the exchange within one expert-parallel rank (mappings.py _AllToAll.forward).
void ExpertCalls::exchange(std::int64_t width, DType dtype, std::string_view tag) const {
  if (job_.layout.ep == 1) {
    return;
  }
  if (has_equal_sizes()) {
    out_.all_to_all(groups_.ep, {routed(width)}, dtype, k_exchange, tag);
  } else {
    out_.expected_all_to_all(groups_.ep, {routed(width)}, dtype, k_exchange, tag);
  }
}

void ExpertCalls::gather_over_tensor_ranks(std::int64_t width, DType dtype, std::string_view tag) const {
  if (shares_.expert_tp == 1) {
    return;
  }
  if (has_equal_sizes()) {
    out_.all_gather(groups_.etp, {routed(width)}, dtype, k_gather_parts, tag);
  } else {
    out_.expected_all_gather(groups_.etp, {routed(width)}, dtype, k_gather_parts, tag);
  }
}

void ExpertCalls::scatter_over_tensor_ranks(std::int64_t width, DType dtype, std::string_view tag) const {
  if (shares_.expert_tp == 1) {
    return;
  }
  if (has_equal_sizes()) {
    out_.reduce_scatter(groups_.etp, {routed(width)}, dtype, k_scatter_parts, tag);
  } else {
    out_.expected_reduce_scatter(groups_.etp, {routed(width)}, dtype, k_scatter_parts, tag);
  }
}

void ExpertCalls::gather_all(std::int64_t width, DType dtype, std::string_view tag) const {
  out_.all_gather(groups_.tp_ep, {tokens_ * width}, dtype, k_gather_tokens, tag);
}
void ExpertCalls::scatter_all(std::int64_t width, DType dtype, std::string_view tag) const {
  out_.reduce_scatter(groups_.tp_ep, {tokens_ * width}, dtype, k_scatter_tokens, tag);
}

void ExpertCalls::dispatch() const {
  exchange(width_, job_.train.dtype, "dispatch");
  if (behaviour_.exchanges_probabilities) {
    exchange(1, probability_, "dispatch of probabilities");
  }
}

/// Weighted by probabilities; Transformer Engine's experts turn the result back into the model's type.
DType ExpertCalls::type_of_outputs() const {
  const bool is_weighted = behaviour_.exchanges_probabilities && !options_.is_transformer_engine;
  return is_weighted ? probability_ : job_.train.dtype;
}

void ExpertCalls::run(const std::function<void()>& compute) const {
  gather_over_tensor_ranks(width_, job_.train.dtype, "expert input");
  if (behaviour_.exchanges_probabilities) {
    gather_over_tensor_ranks(1, probability_, "expert probabilities");
  }
  compute();
  scatter_over_tensor_ranks(width_, type_of_outputs(), "expert output");
}

void ExpertCalls::combine() const { exchange(width_, job_.train.dtype, "combine"); }

void ExpertCalls::combine_gradient() const { exchange(width_, job_.train.dtype, "combine gradient"); }

void ExpertCalls::run_backward(const std::function<void()>& compute) const {
  gather_over_tensor_ranks(width_, type_of_outputs(), "expert output gradient");
  compute();
  if (behaviour_.exchanges_probabilities) {
    scatter_over_tensor_ranks(1, probability_, "expert probability gradient");
  }
  scatter_over_tensor_ranks(width_, job_.train.dtype, "expert input gradient");
}

void ExpertCalls::dispatch_gradient() const {
  if (behaviour_.exchanges_probabilities) {
    exchange(1, probability_, "probability gradient");
  }
  exchange(width_, job_.train.dtype, "dispatch gradient");
}

void ExpertCalls::forward(const std::function<void()>& compute, const std::function<void()>& between) const {
  if (is_alltoall()) {
    dispatch();
    between();
    run(compute);
    return combine();
  }
  const bool is_shared =
      options_.moe_dispatcher == "allgather" && out_.tables().groups.size(groups_.tp_ep) > 1;
  if (!is_shared) {
    between();
    return compute();
  }
  if (behaviour_.gathers_expert_map) {
    gather_all(job_.model.experts, DType::boolean, "expert map");
    gather_all(job_.model.experts, probability_, "router probabilities");
  } else {
    gather_all(job_.model.top_k, DType::int64, "expert index");
    gather_all(job_.model.top_k, probability_, "router probabilities");
  }
  gather_all(width_, job_.train.dtype, "hidden states");
  between();
  compute();
  // Weighted by probabilities, in their dtype.
  scatter_all(width_, behaviour_.gathers_expert_map ? probability_ : job_.train.dtype, "expert output");
}

void ExpertCalls::backward(const std::function<void()>& compute, const std::function<void()>& between) const {
  if (is_alltoall()) {
    combine_gradient();
    run_backward(compute);
    between();
    return dispatch_gradient();
  }
  const bool is_shared =
      options_.moe_dispatcher == "allgather" && out_.tables().groups.size(groups_.tp_ep) > 1;
  if (!is_shared) {
    compute();
    return between();
  }
  gather_all(width_, behaviour_.gathers_expert_map ? probability_ : job_.train.dtype,
             "expert output gradient");
  compute();
  between();
  scatter_all(width_, job_.train.dtype, "hidden state gradient");
  scatter_all(behaviour_.gathers_expert_map ? job_.model.experts : job_.model.top_k, probability_,
              "router probability gradient");
}

}  // namespace commlens::megatron
