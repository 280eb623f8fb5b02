#pragma once
#include <span>
#include <string>
#include <string_view>

namespace commlens {

/// The candidate that means in one tool's configuration what `key` means in another's: "num_layers" for
/// "num_hidden_layers"; empty if there is none. Names have underscores.
std::string same_setting(std::string_view key, std::span<const std::string_view> candidates);

/// The key that was meant: one of the same meaning, else the nearest one; empty if there is none.
std::string meant_key(std::string_view key, std::span<const std::string_view> candidates);

}  // namespace commlens
