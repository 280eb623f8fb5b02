#pragma once
#include <string>
#include <vector>

#include "commlens/app/tune.hpp"
#include "commlens/base/result.hpp"

namespace commlens {

/// Fails if a file of the request cannot be created, or would overwrite an input.
Result<void> check_rule_files(const TuneRequest& request);

/// Fails if a file of the request is for another library than the job's: `library` is "openmpi", "mpich", or
/// "" of threads; `version` what it says of itself.
Result<void> check_library(const RuleFiles& files, const std::string& library, const std::string& version);

/// Writes the rules; returns the names of the files. Fails where a library could not be given a rule.
Result<std::vector<std::string>> write_rule_files(const RuleFiles& files, const TuneResult& result);

}  // namespace commlens
