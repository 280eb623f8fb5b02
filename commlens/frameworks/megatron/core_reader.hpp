#pragma once
#include "commlens/config/map_reader.hpp"
#include "commlens/model/job.hpp"

namespace commlens::megatron {

/// `driver` and `recorded_ranks` of a case file.
void read_case_keys(MapReader& document, Job& job);

}  // namespace commlens::megatron
