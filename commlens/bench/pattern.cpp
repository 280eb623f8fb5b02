#include "commlens/bench/pattern.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace commlens::bench {
namespace {

constexpr std::int64_t k_values = 64;

/// Sums up to 2^bits are exact in a type that calls can combine.
int exact_bits(DType type) {
  switch (type) {
    case DType::fp64:
    case DType::int64:
      return 53;
    case DType::fp32:
      return 24;
    case DType::int32:
      return 30;
    case DType::int16:
      return 14;
    case DType::fp16:
      return 11;
    case DType::bf16:
      return 8;
    case DType::uint8:
    case DType::fp8:
    case DType::boolean:
      return 7;
    case DType::int8:
      return 6;
  }
  return 6;
}

/// The bits of 0 … 2048 as fp16.
std::uint16_t fp16_of(std::int64_t value) {
  if (value == 0) {
    return 0;
  }
  const auto magnitude = static_cast<std::uint32_t>(value);
  const auto exponent = static_cast<std::uint32_t>(std::bit_width(magnitude)) - 1U;
  const std::uint32_t fraction =
      exponent <= 10 ? magnitude << (10U - exponent) : magnitude >> (exponent - 10U);
  return static_cast<std::uint16_t>((exponent + 15U) << 10U | (fraction & 0x3FFU));
}

std::uint16_t bf16_of(std::int64_t value) {
  return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(static_cast<float>(value)) >> 16U);
}

/// Calls `each(number, convert)` for the type: `convert` makes an element of an integer.
template <typename Each>
auto with_type(DType type, const Each& each) {
  switch (type) {
    case DType::fp64:
      return each([](std::int64_t value) { return static_cast<double>(value); });
    case DType::fp32:
      return each([](std::int64_t value) { return static_cast<float>(value); });
    case DType::fp16:
      return each(fp16_of);
    case DType::bf16:
      return each(bf16_of);
    case DType::int64:
      return each([](std::int64_t value) { return value; });
    case DType::int32:
      return each([](std::int64_t value) { return static_cast<std::int32_t>(value); });
    case DType::int16:
      return each([](std::int64_t value) { return static_cast<std::int16_t>(value); });
    case DType::fp8:
    case DType::int8:
    case DType::uint8:
    case DType::boolean:
      break;
  }
  return each([](std::int64_t value) { return static_cast<std::uint8_t>(value); });
}

}  // namespace

std::int64_t pattern_value(std::uint64_t position, std::uint64_t rank) {
  auto x = static_cast<std::uint32_t>(2654435761U * position + 2246822519U * rank + 374761393U);
  x ^= x >> 15U;
  x *= 2246822519U;
  x ^= x >> 13U;
  x *= 3266489917U;
  x ^= x >> 16U;
  return x % k_values;
}

std::int64_t Pattern::value(std::int64_t position, std::int64_t rank) const {
  const std::int64_t plain = pattern_value(static_cast<std::uint64_t>(position),
                                           static_cast<std::uint64_t>(rank + iteration * ranks));
  if (!is_summed) {
    return plain;
  }
  // Of more ranks than a sum may have ones, those from `position` mod `ranks` on give a value.
  const std::int64_t most = std::int64_t{1} << exact_bits(dtype);
  const std::int64_t giving = std::min(ranks, most);
  const bool gives = (rank - position % ranks + ranks) % ranks < giving;
  return gives ? plain % (1 + most / giving) : 0;
}

std::int64_t Pattern::sum(std::int64_t position) const {
  std::int64_t total = 0;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    total += value(position, rank);
  }
  return total;
}

void fill(const Pattern& pattern, std::int64_t rank, std::int64_t first_position, std::span<std::byte> to) {
  with_type(pattern.dtype, [&](const auto& convert) {
    using Element = decltype(convert(std::int64_t{0}));
    for (std::size_t at = 0; at * sizeof(Element) < to.size(); ++at) {
      const Element element = convert(pattern.value(first_position + static_cast<std::int64_t>(at), rank));
      std::memcpy(&to[at * sizeof(Element)], &element, sizeof(Element));
    }
  });
}

Wrong compare(const Pattern& pattern, std::int64_t rank, std::int64_t first_position,
              std::span<const std::byte> found) {
  return with_type(pattern.dtype, [&](const auto& convert) {
    using Element = decltype(convert(std::int64_t{0}));
    Wrong wrong;
    for (std::size_t at = 0; at * sizeof(Element) < found.size(); ++at) {
      const std::int64_t position = first_position + static_cast<std::int64_t>(at);
      const Element expected = convert(rank < 0 ? pattern.sum(position) : pattern.value(position, rank));
      if (std::memcmp(&found[at * sizeof(Element)], &expected, sizeof(Element)) != 0) {
        wrong.first = wrong.elements == 0 ? static_cast<std::int64_t>(at) : wrong.first;
        ++wrong.elements;
      }
    }
    return wrong;
  });
}

void spoil(std::span<std::byte> output) { std::fill(output.begin(), output.end(), std::byte{0xFF}); }

}  // namespace commlens::bench
