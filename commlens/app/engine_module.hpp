#pragma once
#include "commlens/base/result.hpp"
#include "commlens/engine/train.hpp"

namespace commlens {

/// The trainer, from libcommlens-engine.so: looked for in $COMMLENS_MODULE_PATH, beside the program and in
/// ../lib/commlens. It stays loaded. Fails, saying what to do, when this build has none or it cannot be
/// loaded.
Result<const engine::EngineApi*> load_engine();

}  // namespace commlens
