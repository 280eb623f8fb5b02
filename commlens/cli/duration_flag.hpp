#pragma once
#include <chrono>
#include <string>
#include <string_view>

#include "commlens/base/result.hpp"

namespace commlens {

/// As parse_duration(). Fails, naming `flag`, for no time, and for more than a day.
Result<std::chrono::milliseconds> duration_from(const std::string& text, std::string_view flag);

}  // namespace commlens
