#include "commlens/config/json_document.hpp"

#include <string>

#include <gtest/gtest.h>

namespace commlens {
namespace {

std::string json_error_of(const std::string& text) {
  const Result<ConfigNode> document = parse_json("f.json", text);
  return document ? "no error" : document.error().message;
}

TEST(JsonDocument, KeepsTheLineOfEveryValue) {
  const Result<ConfigNode> document =
      parse_json("f.json", "{\n  \"a\": 4,\n  \"b\": [1,\n2\n],\n  \"c\": 5\n}\n");
  ASSERT_TRUE(document) << document.error().message;
  EXPECT_EQ(find(*document, "a")->line, 2);
  EXPECT_EQ(find(*document, "b")->items[1].line, 4);
  EXPECT_EQ(find(*document, "c")->line, 6);
}

TEST(JsonDocument, KeepsTypes) {
  const Result<ConfigNode> document = parse_json(
      "f.json", R"({"a": "4", "b": -4, "c": true, "d": null, "e": 5e8, "f": 18446744073709551615})");
  ASSERT_TRUE(document);
  EXPECT_TRUE(find(*document, "a")->quoted);
  EXPECT_EQ(as_integer(*find(*document, "b")).value(), -4);
  EXPECT_TRUE(as_boolean(*find(*document, "c")).value());
  EXPECT_EQ(find(*document, "d")->kind, ConfigNode::Kind::null);
  EXPECT_EQ(as_integer(*find(*document, "e")).value(), 500'000'000);
  EXPECT_FALSE(as_integer(*find(*document, "f")));
}

TEST(JsonDocument, NamesTheLineOfAMistake) {
  EXPECT_EQ(json_error_of("{\n\"a\": 1,\n}").substr(0, 27), "f.json:3: not valid JSON: s");
  EXPECT_EQ(json_error_of("{\"a\": 1").substr(0, 26), "f.json:1: not valid JSON: ");
  EXPECT_EQ(json_error_of(""), "f.json: the file is empty");
  EXPECT_EQ(json_error_of(std::string(100'000, '[')), "f.json:1: nested deeper than 64 levels");
}

TEST(JsonDocument, EveryPrefixOfAFileIsReadOrRefused) {
  const std::string text = "{\"a\": [1.5e3, {\"b\": \"\\u00e9\"}],\n \"d\": true, \"f\": null}";
  for (std::size_t length = 0; length < text.size(); ++length) {
    EXPECT_TRUE(json_error_of(text.substr(0, length)).starts_with("f.json")) << length;
  }
  EXPECT_EQ(json_error_of(text), "no error");
}

}  // namespace
}  // namespace commlens
