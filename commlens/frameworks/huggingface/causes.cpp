// What the rules of transformers and accelerate mean where their calls are compared; those of PyTorch's own
// modules are PyTorch's.
#include <array>

#include "commlens/frameworks/huggingface/framework.hpp"

namespace commlens::huggingface {
namespace {

constexpr std::array k_rows_of_causes = {
    RuleRow{"trainer.count_items", {Term::none, "item_counts"}},
    RuleRow{"trainer.count_input", {Term::none, "item_counts"}},
    RuleRow{"trainer.log_loss", {Term::none, "logs"}},
    RuleRow{"trainer.log_flops", {Term::none, "logs"}},
    RuleRow{"trainer.save_gather", {Term::none, "checkpoints"}},
    RuleRow{"trainer.save_describe", {Term::none, "checkpoints"}},
    RuleRow{"accelerate.load_broadcast", {Term::none, "loading"}},
    RuleRow{"accelerate.load_scatter", {Term::none, "loading"}},
    RuleRow{"plan.embedding", {Term::tensor, "tensor_plan"}},
    RuleRow{"plan.row_wise_output", {Term::tensor, "tensor_plan"}},
    RuleRow{"plan.column_wise_input", {Term::tensor, "tensor_plan"}},
    RuleRow{"plan.norm_gradient", {Term::none, "partial_gradients"}},
    RuleRow{"plan.rope_gradient", {Term::tensor, "tensor_plan"}},
    RuleRow{"plan.experts", {Term::tensor, "tensor_plan"}},
    RuleRow{"plan.routing_gradient", {Term::tensor, "tensor_plan"}},
    RuleRow{"plan.logits", {Term::none, "loss_parallel"}},
};

}  // namespace

std::span<const RuleRow> causes() { return k_rows_of_causes; }

}  // namespace commlens::huggingface
