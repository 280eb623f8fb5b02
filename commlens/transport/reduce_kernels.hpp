#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "commlens/base/dtype.hpp"
#include "commlens/transport/communicator.hpp"

namespace commlens {

/// IEEE 754 binary16 and bfloat16, given by their bits, to fp32 (exact) and back (rounded to nearest, ties to
/// even; too large becomes infinity; a NaN stays one).
float fp32_from_fp16(std::uint16_t bits);
float fp32_from_bf16(std::uint16_t bits);
std::uint16_t fp16_from_fp32(float value);
std::uint16_t bf16_from_fp32(float value);

/// Whether combine() takes elements of this type: all but fp8 and truth values.
bool can_combine(DType dtype);
/// Whether combine() averages them: the floating-point types of these.
bool can_average(DType dtype);

/// The position of a range of elements in each input and output.
struct CombinedRange {
  std::int64_t from = 0;  // first element in the inputs
  std::int64_t to = 0;    // first element in the outputs
  std::int64_t count = 0;
  std::int64_t divisor = 0;  // of the sum that makes an average; 0: the number of inputs
};

/// Combines the range of all inputs, in the order given, and writes the result to every output. fp16 and bf16
/// are combined (and divided, for an average) in fp32 and rounded once; integers wrap around; a NaN wins
/// against any number. An output may be one of the inputs, at the same place. At least one of each; `dtype`
/// is one that can_combine(), for avg one that can_average().
void combine(DType dtype, ReduceOp reduction, std::span<const std::byte* const> inputs,
             std::span<std::byte* const> outputs, CombinedRange range);

}  // namespace commlens
