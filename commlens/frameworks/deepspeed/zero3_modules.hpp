#pragma once
#include <string>
#include <vector>

#include "commlens/base/result.hpp"
#include "commlens/frameworks/deepspeed/model_tree.hpp"
#include "commlens/frameworks/deepspeed/zero3_coordinator.hpp"

namespace commlens::deepspeed {

/// Rows of the modules whose parameters stage 3 handles together: those that leaf_module names, else those of
/// the granularity. Source: runtime/zero/parameter_offload.py:605 of 0.19.6, utils/z3_leaf_module.py.
std::vector<std::size_t> leaf_modules(const ModelTree& tree, const Job& job);

/// The modules of a tree as stage 3 sees them.
std::vector<HookedModule> hooked_modules(const ModelTree& tree, const std::vector<std::size_t>& leaves);

/// What leaf_module names and the model lacks, which DeepSpeed warns of; empty: nothing.
std::string unmatched_leaf_module(const Job& job);
/// Fails where a leaf's parameters would be released before their gradients, as DeepSpeed does.
Result<void> check_leaf_modules(const Job& job);

}  // namespace commlens::deepspeed
