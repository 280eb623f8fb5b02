#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

namespace commlens {

/// Element type of a message. The names are those of docs/formats/calls.md.
enum class DType : std::uint8_t { fp64, fp32, fp16, bf16, fp8, int64, int32, int16, int8, uint8, boolean };

/// Bytes of one element.
constexpr std::int64_t size_of(DType type) {
  switch (type) {
    case DType::fp64:
    case DType::int64:
      return 8;
    case DType::fp32:
    case DType::int32:
      return 4;
    case DType::fp16:
    case DType::bf16:
    case DType::int16:
      return 2;
    case DType::fp8:
    case DType::int8:
    case DType::uint8:
    case DType::boolean:
      return 1;
  }
  return 0;
}

std::string_view name_of(DType type);

/// The type called `name` ("fp16", "int64", …); std::nullopt if there is none.
std::optional<DType> dtype_from(std::string_view name);

}  // namespace commlens
