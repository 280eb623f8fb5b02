#pragma once
#include <optional>
#include <string_view>
#include <vector>

#include "commlens/model/job.hpp"

namespace commlens {

/// Names of the built-in models of all frameworks, those of each from the smallest: 19M … 175B.
std::vector<std::string_view> preset_names();

/// The job of that name, with its framework; std::nullopt if there is no such preset. "1-3B", "1.3b" and
/// "1.3B" are the same.
std::optional<Job> preset(std::string_view name);

}  // namespace commlens
