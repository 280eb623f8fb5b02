#pragma once
#include <string>
#include <vector>

#include "commlens/base/result.hpp"
#include "commlens/model/job.hpp"

namespace commlens::torchtitan {

/// Refuses, by name, what torchtitan itself refuses and what the rules do not cover.
Result<void> check(const Job& job);

/// What was read in the sources and never recorded.
std::vector<std::string> never_recorded(const Job& job);

}  // namespace commlens::torchtitan
