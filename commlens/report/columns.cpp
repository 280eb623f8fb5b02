#include "commlens/report/columns.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <new>
#include <vector>

#include <fmt/format.h>
#include <zlib.h>

#include "commlens/base/check.hpp"
#include "commlens/trace/json_text.hpp"

namespace commlens {
namespace {

std::string base64(std::string_view bytes) {
  constexpr std::string_view letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    const std::size_t have = std::min<std::size_t>(bytes.size() - at, 3);
    std::uint32_t bits = 0;
    for (std::size_t i = 0; i < 3; ++i) {
      bits = bits << 8 | (i < have ? static_cast<std::uint8_t>(bytes[at + i]) : 0);
    }
    for (std::size_t i = 0; i < 4; ++i) {
      text += i <= have ? letters[bits >> (18 - 6 * i) & 63] : '=';
    }
  }
  return text;
}

/// Appends the `size` low bytes, lowest first.
void append_little(std::string& out, std::uint64_t bits, std::size_t size) {
  for (std::size_t i = 0; i < size; ++i) {
    out += static_cast<char>(bits >> (8 * i) & 0xff);
  }
}

void append_double(std::string& out, double value) {
  append_little(out, std::bit_cast<std::uint64_t>(value), 8);
}

struct Packed {
  std::string_view type;
  std::string bytes;
};

Packed packed_wholes(const std::vector<std::int64_t>& values) {
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  const std::int64_t least = values.empty() ? 0 : *low;
  const std::int64_t most = values.empty() ? 0 : *high;
  const auto of_size = [&](std::string_view type, std::size_t size) {
    Packed packed{type, {}};
    packed.bytes.reserve(values.size() * size);
    for (const std::int64_t value : values) {
      append_little(packed.bytes, static_cast<std::uint64_t>(value), size);
    }
    return packed;
  };
  if (least >= 0 && most <= UINT8_MAX) {
    return of_size("u8", 1);
  }
  if (least >= 0 && most <= UINT16_MAX) {
    return of_size("u16", 2);
  }
  if (least >= 0 && most <= UINT32_MAX) {
    return of_size("u32", 4);
  }
  if (least >= INT32_MIN && most <= INT32_MAX) {
    return of_size("i32", 4);
  }
  Packed packed{"f64", {}};
  packed.bytes.reserve(values.size() * 8);
  for (const std::int64_t value : values) {
    append_double(packed.bytes, value == k_no_value ? std::numeric_limits<double>::quiet_NaN()
                                                    : static_cast<double>(value));
  }
  return packed;
}

Packed packed_differences(const std::vector<std::int64_t>& values) {
  Packed packed{"f64delta", {}};
  std::int64_t last = 0;
  for (const std::int64_t value : values) {
    append_double(packed.bytes, static_cast<double>(value - last));
    last = value;
  }
  return packed;
}

Packed packed_numbers(const std::vector<double>& values) {
  Packed packed{"f64", {}};
  for (const double value : values) {
    append_double(packed.bytes, value);
  }
  return packed;
}

Packed packed_texts(const TextColumn& column) {
  Packed packed{"text", {}};
  for (const std::uint32_t code : column.codes()) {
    append_little(packed.bytes, code, 4);
  }
  return packed;
}

Packed packed(const FigureColumn& column) {
  if (const auto* whole = std::get_if<std::vector<std::int64_t>>(&column.values)) {
    return column.ascending ? packed_differences(*whole) : packed_wholes(*whole);
  }
  if (const auto* number = std::get_if<std::vector<double>>(&column.values)) {
    return packed_numbers(*number);
  }
  return packed_texts(std::get<TextColumn>(column.values));
}

}  // namespace

std::string deflated_base64(std::string_view bytes) {
  uLongf size = compressBound(static_cast<uLong>(bytes.size()));
  std::string compressed(size, '\0');
  const int code = compress2(reinterpret_cast<Bytef*>(compressed.data()), &size,
                             reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uLong>(bytes.size()),
                             Z_BEST_COMPRESSION);
  if (code == Z_MEM_ERROR) {
    throw std::bad_alloc();
  }
  COMMLENS_CHECK(code == Z_OK, "compressBound() says how much room compress2() may need");
  compressed.resize(size);
  return base64(compressed);
}

void append_column_json(std::string& out, const FigureColumn& column) {
  const Packed values = packed(column);
  out += "{\"name\":";
  append_json_string(out, column.name);
  out += ",\"title\":";
  append_json_string(out, column.title);
  out += ",\"unit\":";
  append_json_string(out, column.unit);
  out += fmt::format(",\"type\":\"{}\",\"rows\":{}", values.type, column.rows());
  if (const auto* texts = std::get_if<TextColumn>(&column.values)) {
    out += ",\"dictionary\":[";
    for (std::size_t at = 0; at < texts->dictionary().size(); ++at) {
      out += at == 0 ? "" : ",";
      append_json_string(out, texts->dictionary()[at]);
    }
    out += ']';
  }
  out += ",\"encoding\":\"deflate-base64\",\"data\":\"" + deflated_base64(values.bytes) + "\"}";
}

}  // namespace commlens
