#pragma once

/// The one way into LibTorch: the precompiled header of this folder. Nothing outside engine/ includes it.
#include <torch/torch.h>
