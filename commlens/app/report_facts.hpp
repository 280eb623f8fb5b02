#pragma once
#include <string>
#include <utility>
#include <vector>

#include "commlens/app/compare_sides.hpp"

namespace commlens {

/// What a report says of an input before any number: of a configuration what was predicted (model, layout,
/// batch, memory, FLOPs), of a trace where it comes from. A setting and its value each.
std::vector<std::pair<std::string, std::string>> facts_of(const Side& side);

}  // namespace commlens
