#include "commlens/report/columns.hpp"

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <zlib.h>

namespace commlens {
namespace {

/// What the page does: base64, then inflate.
std::string inflated(const std::string& text, std::size_t size) {
  constexpr std::string_view letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  std::uint32_t bits = 0;
  int have = 0;
  for (const char c : text) {
    const std::size_t value = letters.find(c);
    if (value == std::string_view::npos) {
      break;  // padding
    }
    bits = bits << 6 | static_cast<std::uint32_t>(value);
    have += 6;
    if (have >= 8) {
      have -= 8;
      bytes += static_cast<char>(bits >> have & 0xff);
    }
  }
  std::string out(size, '\0');
  uLongf length = size;
  const int code = uncompress(reinterpret_cast<Bytef*>(out.data()), &length,
                              reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
  EXPECT_EQ(code, Z_OK);
  EXPECT_EQ(length, size);
  return out;
}

nlohmann::json json_of(const FigureColumn& column) {
  std::string text;
  append_column_json(text, column);
  return nlohmann::json::parse(text);
}

TEST(Columns, IntegersTakeTheSmallestTypeThatHoldsThemAll) {
  const auto type_of = [](std::vector<std::int64_t> values) {
    FigureColumn column = whole_column("n", "n");
    wholes(column) = std::move(values);
    return json_of(column)["type"].get<std::string>();
  };
  EXPECT_EQ(type_of({}), "u8");
  EXPECT_EQ(type_of({0, 255}), "u8");
  EXPECT_EQ(type_of({0, 256}), "u16");
  EXPECT_EQ(type_of({65536}), "u32");
  EXPECT_EQ(type_of({-1, 5}), "i32");
  EXPECT_EQ(type_of({-1, 4'000'000'000}), "f64");
  EXPECT_EQ(type_of({5'000'000'000}), "f64");
}

TEST(Columns, ValuesAreLittleEndian) {
  FigureColumn column = whole_column("n", "n", "bytes");
  wholes(column) = {1, 0x1234};
  const nlohmann::json json = json_of(column);
  EXPECT_EQ(json["rows"], 2);
  EXPECT_EQ(json["unit"], "bytes");
  EXPECT_EQ(json["encoding"], "deflate-base64");
  EXPECT_EQ(inflated(json["data"], 4), std::string("\x01\x00\x34\x12", 4));
}

TEST(Columns, IntegersWithoutAValueAreNotANumber) {
  FigureColumn column = whole_column("n", "n");
  wholes(column) = {3, k_no_value};
  const nlohmann::json json = json_of(column);
  EXPECT_EQ(json["type"], "f64");
  std::string bytes = inflated(json["data"], 16);
  std::array<double, 2> values{};
  std::memcpy(values.data(), bytes.data(), bytes.size());
  EXPECT_EQ(values[0], 3);
  EXPECT_TRUE(std::isnan(values[1]));
}

TEST(Columns, AscendingOnesAreDifferencesOfDoubles) {
  FigureColumn column = whole_column("start_ns", "start", "ns");
  column.ascending = true;
  wholes(column) = {1000, 1500, 200};
  const nlohmann::json json = json_of(column);
  EXPECT_EQ(json["type"], "f64delta");
  const std::string bytes = inflated(json["data"], 24);
  const auto at = [&](std::size_t row) {
    std::uint64_t bits = 0;
    for (std::size_t i = 8; i-- > 0;) {
      bits = bits << 8 | static_cast<unsigned char>(bytes[8 * row + i]);
    }
    return std::bit_cast<double>(bits);
  };
  EXPECT_EQ(at(0), 1000);
  EXPECT_EQ(at(1), 500);
  EXPECT_EQ(at(2), -1300);
}

TEST(Columns, TextsAreADictionaryAndItsRows) {
  FigureColumn column = text_column("op", "op");
  texts(column).add("b");
  texts(column).add("a\"");
  texts(column).add("b");
  const nlohmann::json json = json_of(column);
  EXPECT_EQ(json["type"], "text");
  EXPECT_EQ(json["dictionary"], (std::vector<std::string>{"b", "a\""}));
  EXPECT_EQ(inflated(json["data"], 12), std::string("\x00\0\0\0\x01\0\0\0\x00\0\0\0", 12));
}

}  // namespace
}  // namespace commlens
