#pragma once
#include <cstdint>

#include "commlens/engine/torch.hpp"

namespace commlens::engine {

/// Block-quantised rows, for ZeRO++ (arXiv 2306.10209). Blocks of k_quantized_block elements share one fp32
/// scale; the last block of a row may be shorter.
enum class QuantizedBits : std::uint8_t { int4, int8 };

/// rows [n, count] of any floating type -> uint8 [n, int8_bytes(count) or int4_bytes(count)]: the values,
/// then the scales. Symmetric, rounded to nearest.
torch::Tensor quantized(const torch::Tensor& rows, QuantizedBits bits);

/// The inverse: fp32 [n, count].
torch::Tensor dequantized(const torch::Tensor& bytes, std::int64_t count, QuantizedBits bits);

}  // namespace commlens::engine
