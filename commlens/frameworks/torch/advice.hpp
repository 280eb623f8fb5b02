#pragma once
#include "commlens/frameworks/advice_texts.hpp"

namespace commlens::pytorch {

/// What PyTorch's users change to lower what is sent: meshes, fully_shard's arguments, plans and schedules.
AdviceTexts advice_texts();

}  // namespace commlens::pytorch
