#pragma once
#include <cstddef>
#include <optional>
#include <vector>

#include "commlens/plan/local_parameters.hpp"

namespace commlens::deepspeed {

/// An nn.Module as DeepSpeed's hooks see it: the parameters it owns itself (indices into the rank's list;
/// none for containers).
struct HookedModule {
  std::vector<std::size_t> parameters;
  bool has_post_backward = true;  // false when its input needs no gradient (embeddings)
  std::optional<Leaf> leaf;       // none of containers
};

/// The called modules of a GPT in the order of their pre-hooks.
/// Measured for family gpt.
std::vector<HookedModule> forward_modules(const LocalParameters& parameters);
std::vector<HookedModule> backward_modules(const LocalParameters& parameters);

}  // namespace commlens::deepspeed
