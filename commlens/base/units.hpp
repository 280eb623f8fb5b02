#pragma once
#include <chrono>
#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "commlens/base/dtype.hpp"
#include "commlens/base/result.hpp"

namespace commlens {

struct Bytes {
  std::int64_t value = 0;
  friend auto operator<=>(Bytes, Bytes) = default;
  friend constexpr Bytes operator+(Bytes a, Bytes b) { return {a.value + b.value}; }
  friend constexpr Bytes operator-(Bytes a, Bytes b) { return {a.value - b.value}; }
  friend constexpr Bytes operator*(Bytes a, std::int64_t times) { return {a.value * times}; }
  constexpr Bytes& operator+=(Bytes other) { return value += other.value, *this; }
};

struct Elements {
  std::int64_t value = 0;
  friend auto operator<=>(Elements, Elements) = default;
  friend constexpr Elements operator+(Elements a, Elements b) { return {a.value + b.value}; }
  friend constexpr Elements operator-(Elements a, Elements b) { return {a.value - b.value}; }
  friend constexpr Elements operator*(Elements a, std::int64_t times) { return {a.value * times}; }
  constexpr Elements& operator+=(Elements other) { return value += other.value, *this; }
};

/// Floating-point operations (a multiply-add counts two).
struct Flops {
  double value = 0;
  friend auto operator<=>(Flops, Flops) = default;
};

/// 1e9 of it is a GB/s; "25.0 GB/s" when printed.
struct BytesPerSecond {
  double value = 0;
  friend auto operator<=>(BytesPerSecond, BytesPerSecond) = default;
};

/// The only way from elements to bytes.
constexpr Bytes operator*(Elements count, DType type) { return {count.value * size_of(type)}; }

/// The number of elements in `bytes`; fails if `bytes` is not a multiple of the element size.
Result<Elements> elements_in(Bytes bytes, DType type);

/// "512 B", "2.00 KiB", "8.00 MiB": binary, at most two decimals.
std::string to_text(Bytes bytes);

/// "25.0 GB/s": decimal, three digits.
std::string to_text(BytesPerSecond bandwidth);

/// "850 ns", "12.3 µs", "4.56 ms", "78.9 s": three digits, minutes and hours from 100 s on ("2 min 3 s").
std::string to_text(std::chrono::nanoseconds duration);

/// "1,414,647,808".
std::string with_commas(std::int64_t value);

/// A size as a user writes it: "500000000", "5e8", "25MiB", "25MB" (decimal), "64KiB".
Result<Bytes> parse_bytes(std::string_view text);

/// A time as a user writes it, not below 0: "90" (seconds), "500ms", "1.5s", "10min", "2h".
Result<std::chrono::nanoseconds> parse_duration(std::string_view text);

/// Smallest multiple of `multiple` (>= 1) that is >= `value` (>= 0).
constexpr std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

/// Quotient rounded up; both >= 0, `divisor` >= 1.
constexpr std::int64_t ceil_div(std::int64_t value, std::int64_t divisor) {
  return (value + divisor - 1) / divisor;
}

}  // namespace commlens
