// The entry of libcommlens-engine.so.
#include "commlens/engine/train.hpp"

namespace commlens::engine {
namespace {
const EngineApi k_api{&train_rank, &check_trainable, &check_fused_attention, &open_tokens};
}  // namespace
}  // namespace commlens::engine

extern "C" __attribute__((visibility("default"))) const commlens::engine::EngineApi* commlens_engine_api() {
  return &commlens::engine::k_api;
}
