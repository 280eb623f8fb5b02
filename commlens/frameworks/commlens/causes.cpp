// What the rules of our trainer mean where its calls are compared. The cause of a term is why it comes in
// another number of calls.
#include <array>

#include "commlens/frameworks/commlens/framework.hpp"

namespace commlens::trainer {
namespace {

constexpr std::array k_causes = {
    RuleRow{"commlens.pipeline_activation", {Term::boundary, "separate_calls"}},
    RuleRow{"commlens.pipeline_gradient", {Term::boundary, "separate_calls"}},
    RuleRow{"commlens.gradient_norm", {Term::none, "gradient_norms"}},
    RuleRow{"commlens.loss", {Term::none, "loss"}},
    RuleRow{"commlens.split_output", {Term::tensor, "separate_calls"}},
    RuleRow{"commlens.split_input_gradient", {Term::tensor, "separate_calls"}},
    RuleRow{"commlens.sequence_split_output", {Term::none, "sequence_parallel"}},
    RuleRow{"commlens.sequence_split_input", {Term::none, "sequence_parallel"}},
    RuleRow{"commlens.replicated_gradients", {Term::none, "replicated_gradients"}},
    RuleRow{"commlens.vocabulary_parallel_loss", {Term::none, "cross_entropy"}},
    RuleRow{"commlens.partitioned_input", {Term::none, "partitioned_activations"}},
    RuleRow{"commlens.gradient_all_reduce", {Term::gradients, "gradient_buckets"}},
    RuleRow{"commlens.gradient_reduce_scatter", {Term::gradients, "gradient_buckets"}},
    RuleRow{"commlens.parameter_gather",
            {Term::parameters, "separate_calls", "parameters_kept", "docs/training.md#data-parallel"}},
    RuleRow{"commlens.updated_parameter_gather", {Term::parameters, "separate_calls"}},
    RuleRow{"commlens.secondary_gather",
            {Term::parameters, "secondary_partition", "parameters_kept", "docs/training.md#data-parallel"}},
    RuleRow{"commlens.quantized_gather",
            {Term::parameters, "quantized", "quantized", "docs/training.md#data-parallel"}},
    RuleRow{"commlens.quantized_reduction",
            {Term::gradients, "quantized", "quantized", "docs/training.md#data-parallel"}},
    RuleRow{"commlens.tied_gradient", {Term::none, "tied_gradients"}},
};

}  // namespace

std::span<const RuleRow> causes() { return k_causes; }

}  // namespace commlens::trainer
