// What the rules of the paper's equations mean where its calls are compared. The cause of a term is why it
// comes in another number of calls.
#include <array>

#include "commlens/frameworks/paper/framework.hpp"

namespace commlens::paper {
namespace {

constexpr std::array k_causes = {
    RuleRow{"paper.eq2_gradients", {Term::gradients, "gradient_buckets"}},
    RuleRow{"paper.eq2_gradient_reduce_scatter", {Term::gradients, "gradient_buckets"}},
    RuleRow{"paper.eq2_parameter_gather", {Term::parameters, "separate_calls"}},
    RuleRow{"paper.eq3_parameter_gather", {Term::parameters, "separate_calls"}},
    RuleRow{"paper.eq3_gradient_reduce_scatter", {Term::gradients, "gradient_buckets"}},
    RuleRow{"paper.eq4_boundary", {Term::boundary, "separate_calls"}},
    RuleRow{"paper.eq5_all_reduce", {Term::tensor, "separate_calls"}},
};

}  // namespace

std::span<const RuleRow> causes() { return k_causes; }

}  // namespace commlens::paper
