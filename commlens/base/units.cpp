#include "commlens/base/units.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <span>
#include <utility>

#include <fmt/format.h>

namespace commlens {

namespace {

/// "1.23", "12.3", "123" and so on of a value >= 0 that is below 999.5.
std::string three_digits(double value) {
  return value < 9.995   ? fmt::format("{:.2f}", value)
         : value < 99.95 ? fmt::format("{:.1f}", value)
                         : fmt::format("{:.0f}", value);
}

/// `value` of the smallest unit, in the largest one that leaves something before the point.
std::string in_thousands(double value, std::span<const std::string_view> units) {
  if (value == std::floor(value) && value < 999.5) {
    return fmt::format("{} {}", value, units.front());
  }
  std::size_t unit = 0;
  while (value >= 999.5 && unit + 1 < units.size()) {
    value /= 1000.0;
    ++unit;
  }
  return fmt::format("{} {}", three_digits(value), units[unit]);
}

struct Unit {
  std::string_view name;
  double factor;
};

/// A number of at least 0 and one of the units after it, as their product.
std::optional<double> number_with_unit(std::string_view text, std::span<const Unit> units) {
  double number = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (status != std::errc() || !std::isfinite(number) || number < 0) {
    return std::nullopt;
  }
  std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  while (!unit.empty() && unit.front() == ' ') {
    unit.remove_prefix(1);
  }
  const auto found =
      std::find_if(units.begin(), units.end(), [&](const Unit& one) { return one.name == unit; });
  return found == units.end() ? std::nullopt : std::optional(number * found->factor);
}

}  // namespace

Result<Elements> elements_in(Bytes bytes, DType type) {
  if (bytes.value < 0 || bytes.value % size_of(type) != 0) {
    return failure(fmt::format("{} bytes are no integer number of {} elements ({} bytes each)", bytes.value,
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

std::string to_text(BytesPerSecond bandwidth) {
  constexpr std::array<std::string_view, 6> units = {"B/s", "kB/s", "MB/s", "GB/s", "TB/s", "PB/s"};
  return in_thousands(bandwidth.value, units);
}

std::string to_text(std::chrono::nanoseconds duration) {
  constexpr std::array<std::string_view, 4> units = {"ns", "µs", "ms", "s"};
  const std::int64_t count = duration.count();
  if (count < 0) {
    return "-" + to_text(std::chrono::nanoseconds(count == INT64_MIN ? INT64_MAX : -count));
  }
  constexpr std::int64_t second = 1'000'000'000;
  if (count < 100 * second) {
    return in_thousands(static_cast<double>(count), units);
  }
  const std::int64_t seconds = count / second + (count % second >= second / 2 ? 1 : 0);
  return seconds < 6000 ? fmt::format("{} min {} s", seconds / 60, seconds % 60)
                        : fmt::format("{} h {} min", with_commas(seconds / 3600), seconds % 3600 / 60);
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
  constexpr std::array<Unit, 11> units = {{{"", 1.0},
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
  const std::optional<double> bytes = number_with_unit(text, units);
  if (!bytes || *bytes > 4.0e18 || *bytes != std::floor(*bytes)) {
    return failure(
        fmt::format("'{}' is not a size; write bytes or a size such as 25MiB, 64KiB or 5e8", text));
  }
  return Bytes{static_cast<std::int64_t>(*bytes)};
}

Result<std::chrono::nanoseconds> parse_duration(std::string_view text) {
  constexpr std::array<Unit, 6> units = {
      {{"", 1e9}, {"ms", 1e6}, {"s", 1e9}, {"min", 60e9}, {"m", 60e9}, {"h", 3600e9}}};
  const std::optional<double> nanoseconds = number_with_unit(text, units);
  if (!nanoseconds || *nanoseconds > 4.0e18) {
    return failure(
        fmt::format("'{}' is not a time; write seconds or a time such as 500ms, 90s, 10min or 2h", text));
  }
  return std::chrono::nanoseconds(static_cast<std::int64_t>(std::round(*nanoseconds)));
}

}  // namespace commlens
