#pragma once
#include <vector>

#include "commlens/frameworks/torch/groups.hpp"
#include "commlens/frameworks/torch/modules.hpp"

namespace commlens::pytorch {

/// clip_grad_norm_ over all trainable parameters (docs/frameworks/torch.md, C15).
void clip_gradients(ProgramBuilder& out, const Groups& groups, const std::vector<Module>& modules);

/// What the optimizer sends: gradients that are partial sums of tensor ranks, summed wherever they are used.
void sum_in_optimizer(ProgramBuilder& out, const Groups& groups, const std::vector<Module>& modules);

/// Gradients of a pipeline stage are divided by the micro-batches; partial sums are summed for it.
void sum_when_scaling(ProgramBuilder& out, const Groups& groups, const std::vector<Module>& modules);

/// Whether ranks but the first of a tensor group start with nothing (tensor_parallel.init_from_rank0).
bool scatters_weights(const Job& job);
/// parallelize_module on rank 0's weights: a scatter for each parameter that tensor ranks split. Rank 0 of
/// the tensor group gives the whole.
void scatter_weights(ProgramBuilder& out, const Groups& groups, const std::vector<Module>& modules,
                     bool is_root);

}  // namespace commlens::pytorch
