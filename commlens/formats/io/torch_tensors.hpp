#pragma once
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace commlens::formats {

/// The type within "Tensor(float)" or "GenericList[Tensor(float),…]", the first one; empty when there is
/// none.
std::string_view torch_tensor_type(std::string_view type);

/// Bytes of the tensors in a text of nested lists (Python's or JSON's notation), where a tensor is
/// [tensor id, storage id, offset, elements, bytes of one, "device"]; std::nullopt if a size is absurd.
std::optional<std::int64_t> torch_tensor_bytes(std::string_view values);

/// Integers of a text such as "[0, 1, 2]"; std::nullopt if it holds anything else or one beyond 2^63.
std::optional<std::vector<std::int64_t>> whole_numbers(std::string_view text);

}  // namespace commlens::formats
