#include "commlens/config/yaml_document.hpp"

#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace commlens {
namespace {

std::string repeated(std::string_view text, int times) {
  std::string result;
  for (int time = 0; time < times; ++time) {
    result += text;
  }
  return result;
}

std::string error_of(const std::string& text) {
  const Result<ConfigNode> document = parse_yaml("f.yml", text);
  return document ? "no error" : document.error().message;
}

TEST(YamlDocument, ReadsGptNeoxStyle) {
  const Result<ConfigNode> document = parse_yaml("f.yml",
                                                 "# a comment [ with a bracket\n"
                                                 "{\n"
                                                 "  \"pipe-parallel-size\": 1, # another\n"
                                                 "  \"zero_optimization\": {\n"
                                                 "    \"stage\": 1,\n"
                                                 "    \"overlap_comm\": True,\n"
                                                 "  },\n"
                                                 "  \"betas\": [0.9, 0.95],\n"
                                                 "}\n");
  ASSERT_TRUE(document) << document.error().message;
  EXPECT_EQ(find(*document, "pipe-parallel-size")->text, "1");
  const ConfigNode* zero = find(*document, "zero_optimization");
  ASSERT_NE(zero, nullptr);
  EXPECT_EQ(find(*zero, "overlap_comm")->text, "True");
  EXPECT_EQ(find(*zero, "overlap_comm")->where(), "f.yml:6");
  EXPECT_EQ(find(*document, "betas")->items.size(), 2U);
}

TEST(YamlDocument, TellsStringsFromNumbersAndNulls) {
  const Result<ConfigNode> document = parse_yaml("f.yml", "a: \"4\"\nb: 4\nc: null\nd:\ne: ~\n");
  ASSERT_TRUE(document);
  EXPECT_TRUE(find(*document, "a")->quoted);
  EXPECT_FALSE(find(*document, "b")->quoted);
  for (const char* key : {"c", "d", "e"}) {
    EXPECT_EQ(find(*document, key)->kind, ConfigNode::Kind::null) << key;
  }
}

TEST(YamlDocument, ExpandsAliases) {
  const Result<ConfigNode> document = parse_yaml("f.yml", "a: &x {b: 1}\nc: *x\n");
  ASSERT_TRUE(document);
  EXPECT_EQ(find(*find(*document, "c"), "b")->text, "1");
}

TEST(YamlDocument, RefusesAliasBombs) {
  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n";
  for (int level = 1; level < 10; ++level) {
    const std::string before = "*a" + std::to_string(level - 1);
    bomb += fmt::format("a{0}: &a{0} [{1}{2}]\n", level, repeated(before + ", ", 8), before);
  }
  EXPECT_EQ(error_of(bomb),
            "f.yml:5: more than 100000 values (aliases expanded); no configuration is that large");
  EXPECT_EQ(error_of("a: &x [*x]\n"), "f.yml:1: not valid YAML: an alias is inside the value it refers to");
}

TEST(YamlDocument, RefusesDeepNesting) {
  for (const char* opening : {"[", "{a: ", "- ", "? ", "[\n"}) {
    const std::string error = error_of(repeated(opening, 100'000));
    EXPECT_NE(error.find("nested deeper than 64 levels"), std::string::npos) << opening << error;
  }
  std::string indented;
  for (int depth = 0; depth < 500; ++depth) {
    indented += std::string(static_cast<std::size_t>(depth), ' ') + "a:\n";
  }
  EXPECT_EQ(error_of(indented), "f.yml:65: nested deeper than 64 levels");
}

TEST(YamlDocument, NamesTheLineOfAMistake) {
  EXPECT_EQ(error_of("a: 1\nb: [1, 2\n").substr(0, 25), "f.yml:3: not valid YAML: ");
  EXPECT_EQ(error_of("a: 1\n\tb: 2\n").substr(0, 25), "f.yml:2: not valid YAML: ");
  EXPECT_EQ(error_of("a: 1\n<<: {b: 2}\n"), "f.yml:2: merge keys (<<) are not supported; write the keys out");
  EXPECT_EQ(error_of("---\na: 1\n---\nb: 1\n"), "f.yml: more than one YAML document; split the file");
  EXPECT_EQ(error_of(""), "f.yml: the file is empty");
  EXPECT_EQ(error_of("# nothing\n"), "f.yml: the file holds no value");
}

TEST(YamlDocument, EveryPrefixOfAFileIsReadOrRefused) {
  const std::string text =
      "{\"a\": [1, {\"b\": 'x'}], # c\n \"d\": &e True, \"f\": *e, \"g\": \"\\u00e9\"}\n";
  for (std::size_t length = 0; length <= text.size(); ++length) {
    const Result<ConfigNode> document = parse_yaml("f.yml", text.substr(0, length));
    EXPECT_TRUE(document || document.error().message.starts_with("f.yml")) << length;
  }
}

}  // namespace
}  // namespace commlens
