#pragma once
#include "commlens/trace/trace.hpp"

namespace commlens::huggingface {

/// What transformers and accelerate send beside PyTorch's own rules (torch/rule_names.hpp), each with its
/// place in the sources of 5.23.0 and 1.15.0 (docs/frameworks/huggingface.md).
extern const Rule k_count_items;
extern const Rule k_count_input;
extern const Rule k_log_loss;
extern const Rule k_log_flops;
extern const Rule k_load_broadcast;
extern const Rule k_load_scatter;
extern const Rule k_save_gather;
extern const Rule k_save_describe;
extern const Rule k_plan_embedding;
extern const Rule k_plan_output;
extern const Rule k_plan_input;
extern const Rule k_plan_norm;
extern const Rule k_plan_rope;
extern const Rule k_plan_experts;
extern const Rule k_plan_routing;
extern const Rule k_plan_logits;

}  // namespace commlens::huggingface
