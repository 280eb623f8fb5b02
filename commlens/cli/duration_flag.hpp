#pragma once
#include <chrono>
#include <string>
#include <string_view>

#include "commlens/base/result.hpp"

namespace commlens {

/// "100ms", "1.5s", "2m", "1h"; a number alone is seconds. Fails, naming `flag`, for anything else, and for
/// less than 0 or more than a day.
Result<std::chrono::milliseconds> duration_from(const std::string& text, std::string_view flag);

}  // namespace commlens
