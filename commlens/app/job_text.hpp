#pragma once
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "commlens/model/job.hpp"

namespace commlens {

/// "1.3B: 1,414,647,808 parameters".
std::string parameters_text(const ModelConfig& model);

/// "16 ranks = dp 16 x tp 1 x pp 1, ZeRO-3; sequence 2048, micro-batch 4, 1 micro-batch, fp16", of a
/// validated job; with recomputation ", recompute full" follows.
std::string layout_text(const Job& job);
/// "ZeRO-3", or what the framework calls its own.
std::string sharding_text(const Job& job);
/// "bf16", or "fp32 (computes in bf16)".
std::string dtype_text(const Job& job);
/// "none", "selective", "full".
std::string recompute_text(const Job& job);
/// ", flash attention"; ", eager attention" where flash is the default of the model; else empty.
std::string attention_text(const Job& job);

/// `model` and `layout` of `predict --format json`; the paper's count of parameters is null for families
/// other than GPT.
nlohmann::ordered_json model_json(const ModelConfig& model);
nlohmann::ordered_json layout_json(const Job& job);

/// Whether the paper's Eqs 1-3 apply to the model: GPT family, no experts.
bool is_dense_gpt(const ModelConfig& model);

}  // namespace commlens
