#pragma once
#include "commlens/trace/trace.hpp"

namespace commlens::torchtitan {

/// The rules of torchtitan itself, each with its place in the source of 0.3.0
/// (docs/frameworks/torchtitan.md); those of FSDP2 and of pipelines are PyTorch's.
extern const Rule k_init_mask;
extern const Rule k_init_seed;
extern const Rule k_valid_tokens;
extern const Rule k_tensor_gather;
extern const Rule k_tensor_output;
extern const Rule k_tensor_input;
extern const Rule k_tensor_loss;
extern const Rule k_context_gather;
extern const Rule k_context_reduce;
extern const Rule k_expert_counts;
extern const Rule k_expert_tokens;
extern const Rule k_expert_inputs;
extern const Rule k_expert_balance;
extern const Rule k_clip_norms;
extern const Rule k_clip_stages;
extern const Rule k_log;
extern const Rule k_first_barrier;
extern const Rule k_checkpoint_weights;
extern const Rule k_checkpoint_plan;

}  // namespace commlens::torchtitan
