#pragma once
#include "commlens/config/map_reader.hpp"
#include "commlens/model/job.hpp"

namespace commlens::megatron {

/// Reads the arguments of Options, and what newer models add, into a job whose sizes and layout are there.
void read_core_arguments(MapReader& arguments, Job& job);

/// `driver` and `recorded_ranks` of a case file.
void read_case_keys(MapReader& document, Job& job);

}  // namespace commlens::megatron
