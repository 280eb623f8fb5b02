#pragma once
#include "commlens/base/result.hpp"
#include "commlens/config/map_reader.hpp"
#include "commlens/frameworks/deepspeed/options.hpp"
#include "commlens/model/job.hpp"

namespace commlens::deepspeed {

/// Sections of a DeepSpeed JSON. Each fails as read_deepspeed does.

/// zero_optimization.
Result<void> read_zero(const ConfigNode& section, Job& job);
/// Notes a key that newer releases removed, where it is there.
void note_removed(MapReader& reader, const char* key, Options& own);
/// tensor_parallel, expert_parallel, sequence_parallel_size and data_parallel_size.
Result<void> read_parallel(MapReader& settings, Job& job);

}  // namespace commlens::deepspeed
