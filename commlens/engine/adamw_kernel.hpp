#pragma once
#include <cstdint>

namespace commlens::engine {

/// One step of AdamW with decoupled weight decay (arXiv 1711.05101, algorithm 2).
struct AdamwStep {
  double rate = 0;  // learning rate
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double weight_decay = 0;    // of these values
  double gradient_scale = 1;  // the gradient is multiplied by it first
  double correction1 = 1;     // 1 - beta1^steps, steps counted from 1
  double correction2 = 1;     // 1 - beta2^steps
};

/// Memory of one update; no two overlap.
struct AdamwArrays {
  const float* gradient;
  float* values;
  float* first_moment;
  float* second_moment;
};

/// Updates elements [begin, end), each array read and written once.
void adamw_update(const AdamwStep& step, const AdamwArrays& arrays, std::int64_t begin, std::int64_t end);

}  // namespace commlens::engine
