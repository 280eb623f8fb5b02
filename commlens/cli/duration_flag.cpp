#include "commlens/cli/duration_flag.hpp"

#include <array>
#include <charconv>
#include <utility>

#include <fmt/format.h>

namespace commlens {

Result<std::chrono::milliseconds> duration_from(const std::string& text, std::string_view flag) {
  constexpr std::array<std::pair<std::string_view, double>, 5> units = {
      {{"", 1000}, {"ms", 1}, {"s", 1000}, {"m", 60'000}, {"h", 3'600'000}}};
  constexpr double day_ms = 86'400'000;
  double number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  for (const auto& [name, in_ms] : units) {
    if (error == std::errc{} && unit == name && number >= 0 && number * in_ms <= day_ms) {
      return std::chrono::milliseconds(static_cast<std::int64_t>(number * in_ms));
    }
  }
  return failure(fmt::format("{} {}: must be a time up to a day, such as 500ms, 30s, 5m", flag, text));
}

}  // namespace commlens
