#pragma once
#include "commlens/frameworks/frameworks.hpp"

namespace commlens::torchtitan {

/// torchtitan 0.3.0.
FrameworkRules rules();

}  // namespace commlens::torchtitan
