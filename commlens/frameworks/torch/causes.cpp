// What the rules of PyTorch mean where its calls are compared. The cause of a term is why it comes in another
// number of calls.
#include <array>

#include "commlens/frameworks/torch/framework.hpp"

namespace commlens::pytorch {
namespace {

constexpr std::array k_causes = {
    RuleRow{"ddp.broadcast_module_states", {Term::none, "start"}},
    RuleRow{"ddp.first_iteration_all_reduce", {Term::gradients, "gradient_buckets"}},
    RuleRow{"ddp.bucket_all_reduce", {Term::gradients, "gradient_buckets"}},
    RuleRow{"ddp.verify_shapes", {Term::none, "start"}},
    RuleRow{"ddp.broadcast_states", {Term::none, "start"}},
    RuleRow{"ddp.broadcast_buffers", {Term::none, "buffers"}},
    RuleRow{"ddp.rebuild_buckets", {Term::none, "gradient_buckets"}},
    RuleRow{"ddp.first_bucket", {Term::gradients, "gradient_buckets"}},
    RuleRow{"ddp.bucket", {Term::gradients, "gradient_buckets"}},
    RuleRow{"ddp.used_parameters", {Term::none, "unused_parameters"}},
    RuleRow{"ddp.join", {Term::none, "uneven_inputs"}},
    RuleRow{"fsdp.all_gather", {Term::parameters, "units"}},
    RuleRow{"fsdp.all_gather_part", {Term::parameters, "reshard_after_forward"}},
    RuleRow{"fsdp.reduce_scatter", {Term::gradients, "units"}},
    RuleRow{"fsdp.all_reduce_replicas", {Term::gradients, "hybrid_sharding"}},
    RuleRow{"fsdp.sum_partial_gradient", {Term::none, "partial_gradients"}},
    RuleRow{"fsdp1.reduce", {Term::gradients, "units"}},
    RuleRow{"fsdp1.sync_module_states", {Term::none, "start"}},
    RuleRow{"tensor.scatter_weights", {Term::none, "start"}},
    RuleRow{"tensor.gather_sequence", {Term::tensor, "sequence_parallel"}},
    RuleRow{"tensor.scatter_sequence", {Term::tensor, "sequence_parallel"}},
    RuleRow{"tensor.sum_output", {Term::tensor, "tensor_plan"}},
    RuleRow{"tensor.sum_input_gradient", {Term::tensor, "tensor_plan"}},
    RuleRow{"tensor.gather_logits", {Term::none, "loss_parallel"}},
    RuleRow{"tensor.loss_parallel", {Term::none, "loss_parallel"}},
    RuleRow{"tensor.sum_in_optimizer", {Term::none, "partial_gradients"}},
    RuleRow{"context.gather_keys", {Term::none, "context_parallel"}},
    RuleRow{"context.gather_all_keys", {Term::none, "context_parallel"}},
    RuleRow{"context.reduce_gradients", {Term::none, "context_parallel"}},
    RuleRow{"context.exchange_keys", {Term::none, "context_parallel"}},
    RuleRow{"context.exchange_gradients", {Term::none, "context_parallel"}},
    RuleRow{"pipeline.message", {Term::boundary, "schedule"}},
    RuleRow{"pipeline.vote", {Term::none, "first_step"}},
    RuleRow{"pipeline.connect", {Term::none, "first_step"}},
    RuleRow{"pipeline.infer_shapes", {Term::none, "first_step"}},
    RuleRow{"clip.norms", {Term::none, "gradient_norms"}},
    RuleRow{"clip.partial_gradient", {Term::none, "gradient_norms"}},
    RuleRow{"clip.full_tensor", {Term::none, "gradient_norms"}},
};

}  // namespace

std::span<const RuleRow> causes() { return k_causes; }

}  // namespace commlens::pytorch
