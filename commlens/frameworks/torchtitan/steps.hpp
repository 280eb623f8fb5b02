#pragma once
#include <span>
#include <vector>

#include "commlens/frameworks/torchtitan/modules.hpp"

namespace commlens::torchtitan {

/// The modules of the stages that a rank holds.
using Parts = std::vector<const std::vector<pytorch::Module>*>;

/// What ranks send before the first step: the seed, unless one is set, and what drawing weights from a
/// truncated normal distribution needs to know of all shards.
void initialise(ProgramBuilder& out, const Groups& groups, const Parts& parts);

/// The number of tokens that count, before the micro-batches of a step.
void count_tokens(ProgramBuilder& out, const Groups& groups);

/// Parameters with gradients: of experts that expert ranks divide, and others.
struct Gradients {
  std::int64_t dense = 0;
  std::int64_t experts = 0;
};
/// The norm of the gradients, over everything that shards them and the stages (distributed/utils.py,
/// clip_grad_norm_).
void clip(ProgramBuilder& out, const Groups& groups, const Gradients& gradients);

/// The tokens of each expert, which moves its bias before the update.
void balance_experts(ProgramBuilder& out, const Groups& groups, const Parts& parts);

/// Loss and tokens, for the log.
void report_loss(ProgramBuilder& out, const Groups& groups);

/// A checkpoint by torch.distributed.checkpoint. Sizes of pickled objects are about what one tensor's
/// description takes (recorded); of what one rank gathers or gives to all, they are those of the others.
void save_checkpoint(ProgramBuilder& out, const Groups& groups, const Parts& parts);

}  // namespace commlens::torchtitan
