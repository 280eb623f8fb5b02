#pragma once
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
const TrainingKeys& training_keys();
}  // namespace huggingface

}  // namespace commlens
