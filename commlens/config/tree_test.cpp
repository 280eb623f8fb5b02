#include "commlens/config/tree.hpp"

#include <string>

#include <gtest/gtest.h>

namespace commlens {
namespace {

ConfigNode scalar(std::string text, bool quoted = false) {
  ConfigNode node;
  node.kind = ConfigNode::Kind::scalar;
  node.text = std::move(text);
  node.quoted = quoted;
  return node;
}

TEST(ConfigNode, TakesWholeNumbersInEverySpelling) {
  for (const char* text : {"500000000", "500_000_000", "5e8", "500000000.0", "5.0E+8"}) {
    const Result<std::int64_t> value = as_integer(scalar(text));
    ASSERT_TRUE(value) << text;
    EXPECT_EQ(*value, 500'000'000) << text;
  }
}

TEST(ConfigNode, RefusesWhatIsNoWholeNumber) {
  for (const char* text : {"1.5", "abc", "", "1e400", "nan", "inf", "0x10", "99999999999999999999", "1 2"}) {
    EXPECT_FALSE(as_integer(scalar(text))) << text;
  }
  EXPECT_EQ(as_integer(scalar("4", true)).error().message, "must be an integer, it is \"4\"");
}

TEST(ConfigNode, TakesPythonsAndYamlsBooleans) {
  for (const char* text : {"true", "True", "yes", "on"}) {
    EXPECT_TRUE(as_boolean(scalar(text)).value()) << text;
  }
  for (const char* text : {"false", "False", "no", "off"}) {
    EXPECT_FALSE(as_boolean(scalar(text)).value()) << text;
  }
  EXPECT_FALSE(as_boolean(scalar("true", true)));
  EXPECT_FALSE(as_boolean(scalar("1")));
}

TEST(ConfigNode, FindsTheLastOfRepeatedKeys) {
  ConfigNode map;
  append(map, "a", scalar("1"));
  append(map, "a", scalar("2"));
  EXPECT_EQ(find(map, "a")->text, "2");
  EXPECT_EQ(find(map, "b"), nullptr);
}

TEST(ConfigNode, WritesKeysWithUnderscoresAtEveryDepth) {
  ConfigNode inner;
  append(inner, "reduce-scatter", scalar("1"));
  ConfigNode map;
  append(map, "zero-optimization", inner);
  use_underscores(map);
  ASSERT_NE(find(map, "zero_optimization"), nullptr);
  EXPECT_NE(find(*find(map, "zero_optimization"), "reduce_scatter"), nullptr);
}

TEST(ConfigNode, ShowsTextOnOneLineAndShort) {
  EXPECT_EQ(shown_text("a\nb\tc"), "a b c");
  EXPECT_EQ(shown_text("abcdef", 3), "abc…");
  EXPECT_EQ(shown_text("aé", 2), "a…");  // never half a letter
}

TEST(ConfigNode, KnowsTextFromBinary) {
  EXPECT_EQ(check_is_text("f", " \n").error().message, "f: the file is empty");
  EXPECT_EQ(check_is_text("f", std::string_view("a\nb\0c", 5)).error().message,
            "f:2: not a text file (byte 0x00)");
  EXPECT_TRUE(check_is_text("f", "\xEF\xBB\xBF{}"));
}

}  // namespace
}  // namespace commlens
