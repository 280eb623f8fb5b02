// What the rules of torchtitan mean where its calls are compared; those of FSDP2 and of pipelines are
// PyTorch's.
#include <array>

#include "commlens/frameworks/torchtitan/framework.hpp"

namespace commlens::torchtitan {
namespace {

constexpr std::array k_causes = {
    RuleRow{"titan.init_mask", {Term::none, "drawn_weights"}},
    RuleRow{"titan.init_seed", {Term::none, "seed"}},
    RuleRow{"titan.valid_tokens", {Term::none, "valid_tokens"}},
    RuleRow{"titan.gather_sequence", {Term::tensor, "sequence_parallel"}},
    RuleRow{"titan.sum_output", {Term::tensor, "tensor_modules"}},
    RuleRow{"titan.sum_input_gradient", {Term::tensor, "tensor_modules"}},
    RuleRow{"titan.loss", {Term::none, "loss_parallel"}},
    RuleRow{"titan.gather_keys", {Term::none, "whole_keys"}},
    RuleRow{"titan.reduce_key_gradients", {Term::none, "whole_keys"}},
    RuleRow{"titan.expert_counts", {Term::none, "experts"}},
    RuleRow{"titan.expert_tokens", {Term::none, "experts"}},
    RuleRow{"titan.expert_inputs", {Term::none, "expert_inputs"}},
    RuleRow{"titan.expert_balance", {Term::none, "expert_balance"}},
    RuleRow{"titan.clip_norms", {Term::none, "gradient_norms"}},
    RuleRow{"titan.clip_stages", {Term::none, "gradient_norms"}},
    RuleRow{"titan.log", {Term::none, "log"}},
    RuleRow{"titan.first_barrier", {Term::none, "timeouts"}},
    RuleRow{"titan.checkpoint_weights", {Term::none, "checkpoint"}},
    RuleRow{"titan.checkpoint_plan", {Term::none, "checkpoint"}},
};

}  // namespace

std::span<const RuleRow> causes() { return k_causes; }

}  // namespace commlens::torchtitan
