#pragma once
#include <optional>
#include <span>
#include <string_view>

#include "commlens/base/result.hpp"
#include "commlens/config/tree.hpp"
#include "commlens/frameworks/config_reader.hpp"
#include "commlens/frameworks/training_keys.hpp"
#include "commlens/model/job.hpp"

namespace commlens {

/// The job of a Hugging Face config.json (gpt2, gpt_neox, llama, mistral, mixtral): its model, one
/// micro-batch of one sequence of the longest length, in its torch_dtype; framework commlens.
Result<Job> job_from_hf(const ConfigNode& config);

namespace huggingface {
ConfigReader reader();
std::span<const std::string_view> preset_names();
/// A published model by its name, in any case of letters; std::nullopt if there is none of that name. It is
/// trained in bf16 by fully_shard unless another framework is named.
std::optional<Job> preset(std::string_view name);
const TrainingKeys& training_keys();
}  // namespace huggingface

}  // namespace commlens
