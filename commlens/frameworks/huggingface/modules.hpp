#pragma once
#include <cstdint>
#include <vector>

#include "commlens/frameworks/torch/modules.hpp"
#include "commlens/model/job.hpp"

namespace commlens::huggingface {

/// The modules of a causal language model of transformers 5.23 with their parameters as named_parameters()
/// has them, in the order of the forward pass: model.embed_tokens, model.layers.N, model.norm, lm_head (no
/// parameter of its own where embeddings are tied). Tensor ranks hold the parts that the model's tp_plan
/// gives them. Shapes and orders: models/TYPE/modeling_TYPE.py of the model types in model_types.cpp; buffers
/// are those of the rotary embedding and of DeepSeek-V3's router.
std::vector<pytorch::Module> model_modules(const Job& job);

/// Whether layer `layer` of a mixture has experts.
bool has_experts(const ModelConfig& model, std::int64_t layer);

}  // namespace commlens::huggingface
