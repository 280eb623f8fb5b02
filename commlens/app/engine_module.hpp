#pragma once
#include "commlens/base/result.hpp"
#include "commlens/engine/train.hpp"

namespace commlens {

/// Loads the trainer, libcommlens-engine.so, from $COMMLENS_MODULE_PATH, the program's directory or
/// ../lib/commlens. It stays loaded. Fails, with advice, if it is not found or cannot be loaded.
Result<const engine::EngineApi*> load_engine();

}  // namespace commlens
