#include "commlens/transport/reduce_kernels.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "commlens/base/check.hpp"

namespace commlens {
namespace {

// The conversions have no branches, so that loops over them become vector instructions; a conditional
// expression over a result of floating-point arithmetic would be one.

[[gnu::always_inline]] inline std::uint32_t chosen(bool condition, std::uint32_t yes, std::uint32_t no) {
  return no ^ ((yes ^ no) & (0U - static_cast<std::uint32_t>(condition)));
}

constexpr std::uint32_t k_bias_difference = 112U << 23U;  // exponent bias 127 of fp32, 15 of fp16

[[gnu::always_inline]] inline float widened_fp16(std::uint16_t bits) {
  const std::uint32_t magnitude = (bits & 0x7FFFU) << 13U;
  const std::uint32_t sign = (bits & 0x8000U) << 16U;
  // 2^-14 (1 + f) - 2^-14: subnormal numbers without an operation on a subnormal fp32.
  const float subnormal = std::bit_cast<float>(magnitude + 0x38800000U) - 0x1p-14F;
  const std::uint32_t normal = magnitude + k_bias_difference;
  const std::uint32_t special = normal + k_bias_difference;  // infinity and NaN: exponent 255
  const std::uint32_t large = chosen(magnitude >= 0x7C00U << 13U, special, normal);
  return std::bit_cast<float>(
      sign | chosen(magnitude < 0x0400U << 13U, std::bit_cast<std::uint32_t>(subnormal), large));
}

[[gnu::always_inline]] inline std::uint16_t narrowed_fp16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = bits >> 16U & 0x8000U;
  const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
  // The sum with 1/2 rounds to multiples of 2^-24, which are the low bits of a subnormal fp16.
  const std::uint32_t subnormal =
      std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5F) - 0x3F000000U;
  const std::uint32_t normal = (magnitude - k_bias_difference + 0x0FFFU + (magnitude >> 13U & 1U)) >> 13U;
  const std::uint32_t special = chosen(magnitude > 0x7F800000U, 0x7E00U, 0x7C00U);
  const std::uint32_t finite = chosen(magnitude < 0x38800000U, subnormal, normal);  // 2^-14
  const std::uint32_t result = chosen(magnitude >= 0x47800000U, special, finite);   // 2^16
  return static_cast<std::uint16_t>(sign | result);
}

[[gnu::always_inline]] inline float widened_bf16(std::uint16_t bits) {
  return std::bit_cast<float>(std::uint32_t{bits} << 16U);
}

[[gnu::always_inline]] inline std::uint16_t narrowed_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = (bits + 0x7FFFU + (bits >> 16U & 1U)) >> 16U;
  const std::uint32_t quiet = bits >> 16U | 0x40U;  // rounding up could make a NaN infinity
  return static_cast<std::uint16_t>((bits & 0x7FFFFFFFU) > 0x7F800000U ? quiet : rounded);
}

/// Storage type of an element, and the type in which it is combined.
template <typename T>
struct Plain {
  using Stored = T;
  using Combined = T;
  [[gnu::always_inline]] static T widened(T value) { return value; }
  [[gnu::always_inline]] static T narrowed(T value) { return value; }
};
struct Fp16 {
  using Stored = std::uint16_t;
  using Combined = float;
  [[gnu::always_inline]] static float widened(std::uint16_t bits) { return widened_fp16(bits); }
  [[gnu::always_inline]] static std::uint16_t narrowed(float value) { return narrowed_fp16(value); }
};
struct Bf16 {
  using Stored = std::uint16_t;
  using Combined = float;
  [[gnu::always_inline]] static float widened(std::uint16_t bits) { return widened_bf16(bits); }
  [[gnu::always_inline]] static std::uint16_t narrowed(float value) { return narrowed_bf16(value); }
};

template <typename T>
[[gnu::always_inline]] inline bool is_nan(T value) {
  if constexpr (std::is_floating_point_v<T>) {
    return std::isnan(value);
  } else {
    return false;
  }
}

template <ReduceOp Reduction, typename T>
[[gnu::always_inline]] inline T combined(T left, T right) {
  if constexpr (Reduction == ReduceOp::max) {
    return static_cast<bool>(static_cast<int>(right > left) | static_cast<int>(is_nan(right))) ? right : left;
  } else if constexpr (std::is_integral_v<T>) {
    using Unsigned = std::make_unsigned_t<T>;  // wraps around without undefined behaviour
    return static_cast<T>(static_cast<Unsigned>(static_cast<Unsigned>(left) + static_cast<Unsigned>(right)));
  } else {
    return left + right;
  }
}

using Inputs = std::span<const std::byte* const>;
using Outputs = std::span<std::byte* const>;

template <typename T>
[[gnu::always_inline]] inline const T* elements(const std::byte* buffer, std::int64_t first) {
  return reinterpret_cast<const T*>(buffer) + first;
}

template <typename T>
[[gnu::always_inline]] inline T* elements(std::byte* buffer, std::int64_t first) {
  return reinterpret_cast<T*>(buffer) + first;
}

/// Combines in blocks that stay in the first-level cache.
template <typename Format, ReduceOp Reduction>
[[gnu::always_inline]] inline void combine_blocks(Inputs inputs, Outputs outputs, CombinedRange range) {
  using Stored = typename Format::Stored;
  constexpr std::int64_t k_block = 8192 / static_cast<std::int64_t>(sizeof(typename Format::Combined));
  alignas(64) typename Format::Combined sums[k_block];
  const std::int64_t ranks = range.divisor > 0 ? range.divisor : static_cast<std::int64_t>(inputs.size());
  for (std::int64_t done = 0; done < range.count; done += k_block) {
    const std::int64_t count = std::min(k_block, range.count - done);
    const Stored* first = elements<Stored>(inputs[0], range.from + done);
    for (std::int64_t i = 0; i < count; ++i) {
      sums[i] = Format::widened(first[i]);
    }
    for (const std::byte* input : inputs.subspan(1)) {
      const Stored* next = elements<Stored>(input, range.from + done);
      for (std::int64_t i = 0; i < count; ++i) {
        sums[i] = combined<Reduction>(sums[i], Format::widened(next[i]));
      }
    }
    if constexpr (Reduction == ReduceOp::avg) {
      for (std::int64_t i = 0; i < count; ++i) {
        sums[i] /= static_cast<typename Format::Combined>(ranks);
      }
    }
    Stored* result = elements<Stored>(outputs[0], range.to + done);
    for (std::int64_t i = 0; i < count; ++i) {
      result[i] = Format::narrowed(sums[i]);
    }
    for (std::byte* output : outputs.subspan(1)) {
      std::memcpy(elements<Stored>(output, range.to + done), result,
                  static_cast<std::size_t>(count) * sizeof(Stored));
    }
  }
}

template <typename Format, ReduceOp Reduction>
void combine_anywhere(Inputs inputs, Outputs outputs, CombinedRange range) {
  combine_blocks<Format, Reduction>(inputs, outputs, range);
}

#if defined(__x86_64__)
/// The same, compiled for processors of 2013 and later.
template <typename Format, ReduceOp Reduction>
[[gnu::target("avx2")]] void combine_avx2(Inputs inputs, Outputs outputs, CombinedRange range) {
  combine_blocks<Format, Reduction>(inputs, outputs, range);
}

bool has_avx2() {
  static const bool has = __builtin_cpu_supports("avx2") != 0;
  return has;
}
#endif

template <typename Format, ReduceOp Reduction>
void combine_best(Inputs inputs, Outputs outputs, CombinedRange range) {
#if defined(__x86_64__)
  if (has_avx2()) {
    combine_avx2<Format, Reduction>(inputs, outputs, range);
    return;
  }
#endif
  combine_anywhere<Format, Reduction>(inputs, outputs, range);
}

template <typename Format>
void combine_as(ReduceOp reduction, Inputs inputs, Outputs outputs, CombinedRange range) {
  switch (reduction) {
    case ReduceOp::sum:
      return combine_best<Format, ReduceOp::sum>(inputs, outputs, range);
    case ReduceOp::max:
      return combine_best<Format, ReduceOp::max>(inputs, outputs, range);
    case ReduceOp::avg:
      if constexpr (std::is_floating_point_v<typename Format::Combined>) {
        return combine_best<Format, ReduceOp::avg>(inputs, outputs, range);
      }
      break;
  }
  COMMLENS_CHECK(false, "averages of integers are refused when they are made");
}

}  // namespace

float fp32_from_fp16(std::uint16_t bits) { return widened_fp16(bits); }
float fp32_from_bf16(std::uint16_t bits) { return widened_bf16(bits); }
std::uint16_t fp16_from_fp32(float value) { return narrowed_fp16(value); }
std::uint16_t bf16_from_fp32(float value) { return narrowed_bf16(value); }

bool can_combine(DType dtype) { return dtype != DType::fp8 && dtype != DType::boolean; }

bool can_average(DType dtype) {
  return dtype == DType::fp64 || dtype == DType::fp32 || dtype == DType::fp16 || dtype == DType::bf16;
}

void combine(DType dtype, ReduceOp reduction, Inputs inputs, Outputs outputs, CombinedRange range) {
  switch (dtype) {
    case DType::fp64:
      return combine_as<Plain<double>>(reduction, inputs, outputs, range);
    case DType::fp32:
      return combine_as<Plain<float>>(reduction, inputs, outputs, range);
    case DType::fp16:
      return combine_as<Fp16>(reduction, inputs, outputs, range);
    case DType::bf16:
      return combine_as<Bf16>(reduction, inputs, outputs, range);
    case DType::int64:
      return combine_as<Plain<std::int64_t>>(reduction, inputs, outputs, range);
    case DType::int32:
      return combine_as<Plain<std::int32_t>>(reduction, inputs, outputs, range);
    case DType::int16:
      return combine_as<Plain<std::int16_t>>(reduction, inputs, outputs, range);
    case DType::int8:
      return combine_as<Plain<std::int8_t>>(reduction, inputs, outputs, range);
    case DType::uint8:
      return combine_as<Plain<std::uint8_t>>(reduction, inputs, outputs, range);
    case DType::fp8:
    case DType::boolean:
      break;
  }
  COMMLENS_CHECK(can_combine(dtype),
                 "calls that combine what cannot be combined are refused when they are made");
}

}  // namespace commlens
