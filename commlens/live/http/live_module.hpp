#pragma once
#include "commlens/base/result.hpp"

namespace commlens {

/// A function of libcommlens-live.so, which is loaded once. Fails where the module is not installed, where a
/// library that it needs is not, or where it was built without that function: nullptr.
Result<void*> live_module_function(const char* name);

}  // namespace commlens
