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
    RuleRow{"megatron.cross_entropy_sums", {Term::none, "cross_entropy"}},
    RuleRow{"megatron.cross_entropy_gather", {Term::none, "cross_entropy"}},
    RuleRow{"megatron.batch", {Term::none, "batch_broadcasts"}},
    RuleRow{"megatron.loss", {Term::none, "loss"}},
    RuleRow{"megatron.evaluation_loss", {Term::none, "loss"}},
    RuleRow{"megatron.datasets", {Term::none, "start"}},
    RuleRow{"megatron.start_time", {Term::none, "start"}},
    RuleRow{"megatron.start_barrier", {Term::none, "start"}},
    RuleRow{"megatron.optimizer_keys", {Term::none, "start"}},
    RuleRow{"megatron.tied_embedding_start", {Term::none, "start"}},
    RuleRow{"megatron.parameter_broadcast", {Term::none, "start"}},
    RuleRow{"megatron.fsdp_start", {Term::none, "start"}},
    RuleRow{"megatron.timers", {Term::none, "logs"}},
    RuleRow{"megatron.timer_barrier", {Term::none, "logs"}},
    RuleRow{"megatron.step_success", {Term::none, "logs"}},
    RuleRow{"megatron.step_statistic", {Term::none, "logs"}},
    RuleRow{"megatron.parameter_norm", {Term::none, "logs"}},
    RuleRow{"megatron.gradient_zeros", {Term::none, "logs"}},
    RuleRow{"megatron.moe_metric", {Term::none, "logs"}},
    RuleRow{"megatron.mtp_metric", {Term::none, "logs"}},
    RuleRow{"megatron.mtp_accuracy", {Term::none, "logs"}},
    RuleRow{"megatron.rerun_vote", {Term::none, "logs"}},
    RuleRow{"megatron.signals", {Term::none, "logs"}},
    RuleRow{"megatron.time_limit", {Term::none, "logs"}},
    RuleRow{"megatron.gradient_norm_flag", {Term::none, "gradient_norms"}},
    RuleRow{"megatron.token_count", {Term::none, "valid_tokens"}},
    RuleRow{"megatron.gradient_all_to_all", {Term::gradients, "gradient_buckets"}},
    RuleRow{"megatron.gradient_all_reduce_of_instances", {Term::none, "hybrid_sharding"}},
    RuleRow{"megatron.fsdp_gather", {Term::parameters, "separate_calls"}},
    RuleRow{"megatron.fsdp_reduce_scatter", {Term::gradients, "gradient_buckets"}},
    RuleRow{"megatron.gather_columns", {Term::none, "tensor_plan"}},
    RuleRow{"megatron.scatter_columns", {Term::none, "tensor_plan"}},
    RuleRow{"megatron.context_ring", {Term::none, "context_parallel"}},
    RuleRow{"megatron.context_gather", {Term::none, "context_parallel"}},
    RuleRow{"megatron.context_reduce_scatter", {Term::none, "context_parallel"}},
    RuleRow{"megatron.context_all_to_all", {Term::none, "context_parallel"}},
    RuleRow{"megatron.moe_quantiles", {Term::none, "expert_balance"}},
    RuleRow{"megatron.moe_scores", {Term::none, "expert_balance"}},
    RuleRow{"megatron.expert_bias", {Term::none, "expert_balance"}},
    RuleRow{"megatron.moe_tokens_of_experts", {Term::none, "expert_balance"}},
    RuleRow{"megatron.moe_gather_of_tensor_ranks", {Term::none, "experts"}},
    RuleRow{"megatron.moe_scatter_of_tensor_ranks", {Term::none, "experts"}},
};

}  // namespace

std::span<const RuleRow> causes() { return k_causes; }

}  // namespace commlens::megatron
