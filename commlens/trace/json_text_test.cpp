#include "commlens/trace/json_text.hpp"

#include <gtest/gtest.h>

namespace commlens {
namespace {

std::string json_string(std::string_view text) {
  std::string out;
  append_json_string(out, text);
  return out;
}

TEST(JsonText, EscapesWhatJsonForbidsInStrings) {
  EXPECT_EQ(json_string(""), "\"\"");
  EXPECT_EQ(json_string("layer 3/mlp"), "\"layer 3/mlp\"");
  EXPECT_EQ(json_string("a\"b\\c\n\r\t"), R"("a\"b\\c\n\r\t")");
  EXPECT_EQ(json_string(std::string("\x00\x1f", 2)), R"("\u0000\u001f")");
  EXPECT_EQ(json_string("\x7f"), R"("\u007f")");
}

TEST(JsonText, KeepsUtf8AndReplacesWhatIsNone) {
  EXPECT_EQ(json_string("h\xc3\xa9 \xe2\x86\x92 \xf0\x9f\x98\x80"),
            "\"h\xc3\xa9 \xe2\x86\x92 \xf0\x9f\x98\x80\"");
  EXPECT_EQ(json_string("\xff"), "\"\xef\xbf\xbd\"");
  EXPECT_EQ(json_string("a\xc3"), "\"a\xef\xbf\xbd\"");
}

TEST(JsonText, KnowsMalformedUtf8) {
  EXPECT_EQ(utf8_length("\xc0\xaf"), 0U) << "overlong /";
  EXPECT_EQ(utf8_length("\xe0\x80\xaf"), 0U) << "overlong /";
  EXPECT_EQ(utf8_length("\xed\xa0\x80"), 0U) << "surrogate";
  EXPECT_EQ(utf8_length("\xf4\x90\x80\x80"), 0U) << "beyond U+10FFFF";
  EXPECT_EQ(utf8_length("\x80"), 0U) << "continuation alone";
  EXPECT_EQ(utf8_length("\xf4\x8f\xbf\xbf"), 4U) << "U+10FFFF";
  EXPECT_EQ(utf8_length(""), 0U);
  EXPECT_EQ(valid_utf8("a\xff\xc3\xa9"), "a\xef\xbf\xbd\xc3\xa9");
}

TEST(JsonText, WritesTheExtremesOfANumber) {
  std::string out;
  append_number(out, INT64_MIN);
  out += ' ';
  append_number(out, INT64_MAX);
  EXPECT_EQ(out, "-9223372036854775808 9223372036854775807");
}

}  // namespace
}  // namespace commlens
