#include "commlens/base/units.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include <fmt/format.h>

namespace commlens {

Result<Elements> elements_in(Bytes bytes, DType type) {
  if (bytes.value < 0 || bytes.value % size_of(type) != 0) {
    return failure(fmt::format("{} bytes are not a whole number of {} elements ({} bytes each)", bytes.value,
                               name_of(type), size_of(type)));
  }
  return Elements{bytes.value / size_of(type)};
}

std::string to_text(Bytes bytes) {
  constexpr std::array<const char*, 6> units = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (std::llabs(bytes.value) < 1024) {
    return fmt::format("{} B", bytes.value);
  }
  double size = static_cast<double>(bytes.value) / 1024.0;
  std::size_t unit = 0;
  while (std::fabs(size) >= 1023.995 && unit + 1 < units.size()) {
    size /= 1024.0;
    ++unit;
  }
  return fmt::format("{:.2f} {}", size, units[unit]);
}

std::string with_commas(std::int64_t value) {
  const bool negative = value < 0;
  std::string digits = std::to_string(value).substr(negative ? 1 : 0);
  for (std::int64_t at = static_cast<std::int64_t>(digits.size()) - 3; at > 0; at -= 3) {
    digits.insert(static_cast<std::size_t>(at), ",");
  }
  return negative ? "-" + digits : digits;
}

Result<Bytes> parse_bytes(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, double>, 11> units = {{{"", 1.0},
                                                                          {"B", 1.0},
                                                                          {"KB", 1e3},
                                                                          {"MB", 1e6},
                                                                          {"GB", 1e9},
                                                                          {"TB", 1e12},
                                                                          {"KiB", 1024.0},
                                                                          {"MiB", 1048576.0},
                                                                          {"GiB", 1073741824.0},
                                                                          {"TiB", 1099511627776.0},
                                                                          {"K", 1024.0}}};
  const auto wrong = [&] {
    return failure(
        fmt::format("'{}' is not a size; write bytes or a size such as 25MiB, 64KiB or 5e8", text));
  };
  double number = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (status != std::errc() || !std::isfinite(number) || number < 0) {
    return wrong();
  }
  std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  while (!unit.empty() && unit.front() == ' ') {
    unit.remove_prefix(1);
  }
  for (const auto& [name, factor] : units) {
    if (unit == name) {
      const double bytes = number * factor;
      if (bytes > 4.0e18 || bytes != std::floor(bytes)) {
        return wrong();
      }
      return Bytes{static_cast<std::int64_t>(bytes)};
    }
  }
  return wrong();
}

}  // namespace commlens
