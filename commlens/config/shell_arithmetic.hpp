#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

namespace commlens {

/// The value of an arithmetic expression of a shell, as in $((2 * N)); `value_of` knows the variables.
/// std::nullopt for what has no value: an unknown variable, a division by zero, an overflow, an operator that
/// launch scripts do not use.
std::optional<std::int64_t> shell_arithmetic(
    std::string_view text, const std::function<std::optional<std::int64_t>(std::string_view name)>& value_of);

}  // namespace commlens
