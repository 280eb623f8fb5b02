#pragma once
#include "commlens/base/result.hpp"
#include "commlens/config/tree.hpp"
#include "commlens/frameworks/config_reader.hpp"
#include "commlens/model/job.hpp"

namespace commlens {

/// The job of a commlens case file (docs/formats/case.md). With a map of a framework's own arguments
/// (CaseRules::arguments) the model, layout, micro-batches and precision come from that map and must not be
/// in the file.
Result<Job> job_from_case(const ConfigNode& document);

/// Case files among the configurations of a command line.
const ConfigReader& case_reader();

}  // namespace commlens
