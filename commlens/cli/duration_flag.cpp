#include "commlens/cli/duration_flag.hpp"

#include <fmt/format.h>

#include "commlens/base/units.hpp"

namespace commlens {

Result<std::chrono::milliseconds> duration_from(const std::string& text, std::string_view flag) {
  constexpr std::chrono::hours k_longest(24);
  const Result<std::chrono::nanoseconds> time = parse_duration(text);
  if (!time || *time > k_longest) {
    return failure(fmt::format("{} {}: must be a time up to a day, such as 500ms, 30s, 5min", flag, text));
  }
  return std::chrono::duration_cast<std::chrono::milliseconds>(*time);
}

}  // namespace commlens
