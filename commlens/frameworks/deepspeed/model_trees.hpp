#pragma once
#include "commlens/frameworks/deepspeed/model_tree.hpp"

namespace commlens::deepspeed {

/// The tree `gpt` of these parameters, with the experts and the low ranks of `job`; null: a client's own
/// model.
ModelTree build_gpt_tree(const LocalParameters& parameters, const Job* job);
/// The tree `llama` of a job, or that of transformers' models (is_of_transformers).
ModelTree build_llama_tree(const Job& job);

}  // namespace commlens::deepspeed
