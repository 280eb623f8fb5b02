#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "commlens/frameworks/deepspeed/model_tree.hpp"

namespace commlens::deepspeed {

/// What happens to a module in a forward or backward pass, in this order; modules that it calls have theirs
/// where it computes.
struct PassStep {
  enum class Kind : std::uint8_t {
    before,           // messages that its caller sends before it
    fetch,            // stage 3: the pre-hook
    compute,          // of modules that compute themselves
    inside,           // messages of its own
    gradient,         // a gradient is complete: `row` is the parameter's
    release,          // stage 3: the post-hook
    after,            // messages that its caller sends after it
    begin_recompute,  // a block is computed again: the steps up to `end_recompute` are those of a forward
                      // pass
    end_recompute
  };
  Kind kind = Kind::compute;
  std::size_t row = 0;  // of the module, unless it is a gradient
  friend bool operator==(const PassStep&, const PassStep&) = default;
};

/// How the passes of a job differ from the plain ones.
struct PassOptions {
  bool recomputes = false;          // blocks are checkpointed
  bool is_reentrant = false;        // by CheckpointFunction, which computes a block again before it
  bool is_weight_first = false;     // of a linear, the gradient of the weight is complete before the bias's
  std::vector<std::size_t> leaves;  // modules whose parameters stage 3 handles together
  bool decays_apart = false;        // the optimizer has groups by weight decay, of which each leaf's come
  std::int64_t skipped_block = -1;  // a block that the pass leaves out
};

/// The passes of a model, whose hooks fire in the order of its calls; a backward pass is the reverse, of what
/// a gradient reaches. Of a norm, the gradient of the weight is complete before the bias's, of a linear the
/// reverse (PassOptions). Source: recorded runs (tests/golden/deepspeed, tests/golden/deepspeed_0.19).
std::vector<PassStep> forward_steps(const ModelTree& tree, const PassOptions& options);
std::vector<PassStep> backward_steps(const ModelTree& tree, const PassOptions& options);

/// The parameters in the order in which a backward pass completes their gradients.
LocalParameters in_gradient_order(const ModelTree& tree, const PassOptions& options);

}  // namespace commlens::deepspeed
