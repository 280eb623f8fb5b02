#pragma once
#include "commlens/frameworks/variations.hpp"

namespace commlens::pytorch {

/// Adds every value worth trying of every key of a torch case (docs/formats/case.md), under the name that the
/// key has there. Keys whose value changes no message are in none of them.
void add_variations(Variations& variations);

}  // namespace commlens::pytorch
