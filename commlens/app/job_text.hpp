#pragma once
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "commlens/model/job.hpp"

namespace commlens {

/// "1.3B: 1,414,647,808 parameters".
std::string parameters_text(const ModelConfig& model);

/// "16 ranks = dp 16 x tp 1 x pp 1, ZeRO-3; sequence 2048, micro-batch 4, 1 micro-batch, fp16", of a
/// validated job.
std::string layout_text(const Job& job);

/// `model` and `layout` of CONTRACT §5; the paper's count of parameters is null for other families than GPT.
nlohmann::ordered_json model_json(const ModelConfig& model);
nlohmann::ordered_json layout_json(const Job& job);

/// Whether the paper's Eqs 1-3 speak of such a model: no experts, the GPT family.
bool is_dense_gpt(const ModelConfig& model);

}  // namespace commlens
