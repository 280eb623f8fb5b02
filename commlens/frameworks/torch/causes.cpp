// What the rules of DistributedDataParallel mean where its calls are compared. The cause of a term is why
// it comes in another number of calls.
#include <array>

#include "commlens/frameworks/torch/framework.hpp"

namespace commlens::torch_ddp {
namespace {

constexpr std::array k_causes = {
    RuleRow{"ddp.broadcast_module_states", {Term::none, "start"}},
    RuleRow{"ddp.first_iteration_all_reduce", {Term::gradients, "gradient_buckets"}},
    RuleRow{"ddp.bucket_all_reduce", {Term::gradients, "gradient_buckets"}},
};

}  // namespace

std::span<const RuleRow> causes() { return k_causes; }

}  // namespace commlens::torch_ddp
