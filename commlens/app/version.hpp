#pragma once
#include <string_view>

namespace commlens {

/// Version of this library and of the program.
constexpr std::string_view k_version = "0.2.0";

}  // namespace commlens
