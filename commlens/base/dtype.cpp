#include "commlens/base/dtype.hpp"

#include <array>

namespace commlens {
namespace {
constexpr std::array<std::string_view, 11> k_names = {"fp64",  "fp32",  "fp16", "bf16",  "fp8", "int64",
                                                      "int32", "int16", "int8", "uint8", "bool"};
}

std::string_view name_of(DType type) { return k_names.at(static_cast<std::size_t>(type)); }

std::optional<DType> dtype_from(std::string_view name) {
  for (std::size_t index = 0; index < k_names.size(); ++index) {
    if (k_names[index] == name) {
      return static_cast<DType>(index);
    }
  }
  return std::nullopt;
}

}  // namespace commlens
