#pragma once
#include "commlens/base/result.hpp"
#include "commlens/config/tree.hpp"
#include "commlens/model/job.hpp"

namespace commlens {

/// The job of a commlens case file (docs/formats/case.md). With a `neox` or `megatron` map the model, layout,
/// micro-batches and precision come from that map and must not be in the file.
Result<Job> job_from_case(const ConfigNode& document);

}  // namespace commlens
