#pragma once
#include <string_view>

#include "commlens/config/map_reader.hpp"
#include "commlens/model/job.hpp"

namespace commlens::pytorch {

/// The sections ddp, fsdp, tensor_parallel, context_parallel, pipeline and trainer of a case
/// (docs/formats/case.md).
Result<void> read_case_section(std::string_view name, const ConfigNode& section, Job& job);
/// data_replicate and data_shard of the section layout.
void read_case_layout(MapReader& reader, Job& job);

}  // namespace commlens::pytorch
