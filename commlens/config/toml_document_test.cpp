#include "commlens/config/toml_document.hpp"

#include <string>

#include <gtest/gtest.h>

namespace commlens {
namespace {

std::string error_of(const std::string& text) {
  const Result<ConfigNode> document = parse_toml("f.toml", text);
  return document ? "no error" : document.error().message;
}

TEST(TomlDocument, ReadsTablesInTheOrderOfTheFile) {
  const Result<ConfigNode> document = parse_toml("f.toml",
                                                 "title = \"a run\"  # a comment\n"
                                                 "[training]\n"
                                                 "seq_len = 2_048\n"
                                                 "mixed = true\n"
                                                 "lr = 8e-4\n"
                                                 "[parallelism.shard]\n"
                                                 "degrees = [1, -1]\n");
  ASSERT_TRUE(document) << document.error().message;
  EXPECT_EQ(document->keys, (std::vector<std::string>{"title", "training", "parallelism"}));
  EXPECT_TRUE(find(*document, "title")->quoted);
  const ConfigNode& training = *find(*document, "training");
  EXPECT_EQ(training.keys, (std::vector<std::string>{"seq_len", "mixed", "lr"}));
  EXPECT_EQ(as_integer(*find(training, "seq_len")).value(), 2048);
  EXPECT_EQ(find(training, "seq_len")->where(), "f.toml:3");
  EXPECT_TRUE(as_boolean(*find(training, "mixed")).value());
  EXPECT_EQ(as_number(*find(training, "lr")).value(), 8e-4);
  const ConfigNode& degrees = *find(*find(*find(*document, "parallelism"), "shard"), "degrees");
  ASSERT_EQ(degrees.items.size(), 2U);
  EXPECT_EQ(as_integer(degrees.items[1]).value(), -1);
}

TEST(TomlDocument, SaysWhereATextIsWrong) {
  EXPECT_EQ(error_of("a = 1\nb = \n").substr(0, 26), "f.toml:2: not valid TOML: ");
  EXPECT_EQ(error_of("a = 1\na = 2\n").substr(0, 26), "f.toml:2: not valid TOML: ");
  EXPECT_NE(error_of(std::string("a = \0", 5)), "no error");
}

TEST(TomlDocument, RefusesWhatNestsTooDeep) {
  std::string text = "a = ";
  for (int depth = 0; depth < 80; ++depth) {
    text += "[";
  }
  for (int depth = 0; depth < 80; ++depth) {
    text += "]";
  }
  EXPECT_NE(error_of(text + "\n"), "no error");
}

}  // namespace
}  // namespace commlens
