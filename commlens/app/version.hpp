#pragma once
#include <string_view>

namespace commlens {

/// Of this library and of the program, which is built from it.
constexpr std::string_view k_version = "0.1.0";

}  // namespace commlens
