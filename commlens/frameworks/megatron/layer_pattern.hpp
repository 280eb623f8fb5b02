#pragma once
#include <cstdint>
#include <vector>

#include "commlens/base/result.hpp"
#include "commlens/config/tree.hpp"

namespace commlens::megatron {

/// Which of `layers` layers a frequency means: N is each Nth from the first on, [1, 0, …] or the text
/// "([0]*3+[1]*58)" says it of each layer. The error completes "'moe_layer_freq' …".
Result<std::vector<bool>> layer_pattern(const ConfigNode& frequency, std::int64_t layers);

}  // namespace commlens::megatron
