#pragma once
#include <span>

#include "commlens/trace/rule_book.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens::pytorch {

/// The rules of PyTorch 2.x, each with its place in the source of 2.15 (docs/frameworks/torch.md).
extern const Rule k_fsdp_gather;
extern const Rule k_fsdp_gather_part;
extern const Rule k_fsdp_reduce_scatter;
extern const Rule k_fsdp_reduce_replicas;
extern const Rule k_fsdp_sum_partial;
extern const Rule k_fsdp1_reduce;
extern const Rule k_fsdp1_states;
extern const Rule k_tensor_scatter;
extern const Rule k_tensor_gather;
extern const Rule k_tensor_reduce_scatter;
extern const Rule k_tensor_sum;
extern const Rule k_tensor_input_sum;
extern const Rule k_tensor_logits;
extern const Rule k_tensor_loss;
extern const Rule k_tensor_optimizer;
extern const Rule k_context_gather;
extern const Rule k_context_gather_all;
extern const Rule k_context_reduce;
extern const Rule k_context_exchange;
extern const Rule k_context_gradients;
extern const Rule k_ddp_verify;
extern const Rule k_ddp_states;
extern const Rule k_ddp_buffers;
extern const Rule k_ddp_rebuild;
extern const Rule k_ddp_first_bucket;
extern const Rule k_ddp_bucket;
extern const Rule k_ddp_unused;
extern const Rule k_ddp_join;
extern const Rule k_pipeline_message;
extern const Rule k_pipeline_vote;
extern const Rule k_pipeline_connect;
extern const Rule k_pipeline_shapes;
extern const Rule k_clip_norms;
extern const Rule k_clip_partial;
extern const Rule k_clip_full_tensor;

}  // namespace commlens::pytorch
