#pragma once
#include "commlens/frameworks/variations.hpp"

namespace commlens::torchtitan {

/// Adds the settings of torchtitan that make two runs of a model differ, by their names on its command line
/// (docs/frameworks/torchtitan.md).
void add_variations(Variations& variations);

}  // namespace commlens::torchtitan
