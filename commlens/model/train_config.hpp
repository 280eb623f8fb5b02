#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "commlens/base/dtype.hpp"
#include "commlens/base/units.hpp"

namespace commlens {

enum class Recompute : std::uint8_t { none, selective, full };
/// Attention scores kept for backward, or one fused kernel that computes them again (FlashAttention, SDPA).
enum class Attention : std::uint8_t { eager, flash };
enum class Schedule : std::uint8_t { gpipe, one_f_one_b, interleaved };

/// How an iteration is trained, in terms every framework shares.
struct TrainConfig {
  std::int64_t micro_batch = 1;    // sequences per rank and micro-batch (b)
  std::int64_t micro_batches = 1;  // per optimizer step (M): gradient accumulation or pipeline micro-batches
  DType dtype = DType::fp32;       // of the model: fp32, fp16 or bf16
  Recompute recompute = Recompute::none;
  Schedule schedule = Schedule::one_f_one_b;
  std::optional<Attention> attention;  // absent: as the model's family usually has it (memory.hpp)
  int zero_stage = 0;
  std::int64_t persistence_threshold = 100'000;  // ZeRO-3: parameters up to this many elements stay gathered
  std::int64_t hpz = 1;                          // ZeRO++ hpZ: ranks of a secondary partition
  bool quantized_weights = false;                // ZeRO++ qwZ: parameters gathered in int8
  bool quantized_gradients = false;              // ZeRO++ qgZ: gradients in int4, two hops
  bool partition_activations = false;  // full recomputation: stored inputs split over the tensor ranks
  double gradient_clipping = 0.0;      // 0: off
  bool clipping_is_given = false;      // also where it is 0; else a framework may have a default of its own
  bool dtype_is_chosen = true;         // false: it is the default of a built-in model
};

}  // namespace commlens
