// What the rules of Megatron mean where its calls are compared. The cause of a term is why it comes in
// another number of calls.
#include <array>

#include "commlens/frameworks/megatron/framework.hpp"

namespace commlens::megatron {
namespace {

constexpr std::array k_causes = {
    RuleRow{"megatron.pipeline_activation", {Term::boundary, "separate_calls"}},
    RuleRow{"megatron.pipeline_gradient", {Term::boundary, "separate_calls"}},
    RuleRow{"megatron.pipeline_shape", {Term::none, "activation_shapes"}},
    RuleRow{"megatron.gradient_all_reduce", {Term::gradients, "gradient_buckets"}},
    RuleRow{"megatron.gradient_reduce_scatter", {Term::gradients, "gradient_buckets"}},
    RuleRow{"megatron.gather_updated_parameters", {Term::parameters, "separate_calls"}},
    RuleRow{"megatron.sequence_parallel_norm_gradients", {Term::none, "replicated_gradients"}},
    RuleRow{"megatron.tied_embedding_gradient", {Term::none, "tied_gradients"}},
    RuleRow{"megatron.gradient_norm", {Term::none, "gradient_norms"}},
    RuleRow{"megatron.found_inf", {Term::none, "overflow_flags"}},
    RuleRow{"megatron.tensor_parallel_forward_all_reduce", {Term::tensor, "separate_calls"}},
    RuleRow{"megatron.tensor_parallel_backward_all_reduce", {Term::tensor, "separate_calls"}},
    RuleRow{"megatron.sequence_parallel_gather_input", {Term::none, "sequence_parallel"}},
    RuleRow{"megatron.sequence_parallel_gather_input_again", {Term::none, "sequence_parallel"}},
    RuleRow{"megatron.sequence_parallel_reduce_scatter", {Term::none, "sequence_parallel"}},
    RuleRow{"megatron.sequence_parallel_gather_gradient", {Term::none, "sequence_parallel"}},
    RuleRow{"megatron.sequence_parallel_reduce_scatter_gradient", {Term::none, "sequence_parallel"}},
    RuleRow{"megatron.cross_entropy_max", {Term::none, "cross_entropy"}},
    RuleRow{"megatron.cross_entropy_target", {Term::none, "cross_entropy"}},
    RuleRow{"megatron.cross_entropy_sum", {Term::none, "cross_entropy"}},
    RuleRow{"megatron.distributed_saved_activation", {Term::none, "partitioned_activations"}},
    RuleRow{"megatron.moe_gather", {Term::none, "experts"}},
    RuleRow{"megatron.moe_reduce_scatter", {Term::none, "experts"}},
    RuleRow{"megatron.moe_tokens_per_expert", {Term::none, "experts"}},
    RuleRow{"megatron.moe_all_to_all", {Term::none, "experts"}},
    RuleRow{"megatron.moe_gather_hidden_shards", {Term::none, "experts"}},
    RuleRow{"megatron.moe_gather_logits", {Term::none, "experts"}},
    RuleRow{"megatron.moe_logits_gradient", {Term::none, "experts"}},
};

}  // namespace

std::span<const RuleRow> causes() { return k_causes; }

}  // namespace commlens::megatron
