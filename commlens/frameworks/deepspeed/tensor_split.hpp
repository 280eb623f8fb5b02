#pragma once
#include <string>

#include "commlens/base/result.hpp"
#include "commlens/frameworks/deepspeed/options.hpp"
#include "commlens/model/parameters.hpp"

namespace commlens::deepspeed {

/// Whether AutoTP can use a pattern of TensorSpec: a regular expression of up to 200 characters.
Result<void> check_pattern(const std::string& pattern);

/// How AutoTP splits a parameter, by its name: as the first of the job's specs says that matches the whole
/// name; without specs, the linears of Llama's blocks. Replicated where the job has no AutoTP. Source:
/// deepspeed 0.19.8 module_inject/autotp_config.py.
TensorSplit tensor_split(const Job& job, const std::string& name);

}  // namespace commlens::deepspeed
