// What the rules of GPT-NeoX mean where its calls are compared. The cause of a term says why it comes in
// another number of calls.
#include <array>

#include "commlens/frameworks/neox/framework.hpp"

namespace commlens::neox {
namespace {

constexpr std::array k_causes = {
    RuleRow{"neox.total_parameters", {Term::none, "start"}},
    RuleRow{"neox.data_flags", {Term::none, "start"}},
    RuleRow{"neox.loss_all_reduce", {Term::none, "loss"}},
    RuleRow{"neox.broadcast_batch_sizes", {Term::none, "batch_broadcasts"}},
    RuleRow{"neox.broadcast_batch", {Term::none, "batch_broadcasts"}},
    RuleRow{"neox.tensor_parallel_forward_all_reduce", {Term::tensor, "separate_calls"}},
    RuleRow{"neox.tensor_parallel_backward_all_reduce", {Term::tensor, "separate_calls"}},
    RuleRow{"neox.unembedding_backward_all_reduce", {Term::tensor, "unembedding_all_reduce"}},
    RuleRow{"neox.cross_entropy_max", {Term::none, "cross_entropy"}},
    RuleRow{"neox.cross_entropy_target", {Term::none, "cross_entropy"}},
    RuleRow{"neox.cross_entropy_sum", {Term::none, "cross_entropy"}},
    RuleRow{"neox.sequence_parallel_gather", {Term::none, "sequence_parallel"}},
    RuleRow{"neox.sequence_parallel_reduce_scatter", {Term::none, "sequence_parallel"}},
    RuleRow{"neox.sequence_parallel_norm_gradient", {Term::none, "replicated_gradients"}},
};

}  // namespace

std::span<const RuleRow> causes() { return k_causes; }

}  // namespace commlens::neox
