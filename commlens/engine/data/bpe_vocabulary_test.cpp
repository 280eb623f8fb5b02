#include "commlens/engine/data/bpe_vocabulary.hpp"

#include <gtest/gtest.h>

#include "commlens/engine/data/test_files.hpp"

namespace commlens::engine {
namespace {

TEST(CharacterOfByte, IsGpt2sTable) {
  EXPECT_EQ(character_of_byte('!'), "!");
  EXPECT_EQ(character_of_byte('~'), "~");
  EXPECT_EQ(character_of_byte(0x00), "\u0100");
  EXPECT_EQ(character_of_byte('\n'), "Ċ");
  EXPECT_EQ(character_of_byte(' '), "Ġ");
  EXPECT_EQ(character_of_byte(0x7f), "\u0121");
  EXPECT_EQ(character_of_byte(0xa0), "\u0142");
  EXPECT_EQ(character_of_byte(0xa1), "\u00a1");
  EXPECT_EQ(character_of_byte(0xad), "\u0143");  // the last one
  EXPECT_EQ(character_of_byte(0xff), "\u00ff");
}

TEST(BpeVocabulary, HasTokensOfBytesAndRankedMerges) {
  const TestFiles files;
  const Result<BpeVocabulary> vocabulary = BpeVocabulary::read(files.vocabulary(), files.merges());
  ASSERT_TRUE(vocabulary) << vocabulary.error().message;
  EXPECT_EQ(vocabulary->size(), 261);
  EXPECT_EQ(vocabulary->of_byte(' '), 32u);
  EXPECT_EQ(vocabulary->of_byte(0xff), 255u);
  ASSERT_TRUE(vocabulary->merge(256, 'e'));
  EXPECT_EQ(vocabulary->merge(256, 'e')->merged, 257u);
  EXPECT_EQ(vocabulary->merge(256, 'e')->rank, 1u);
  EXPECT_FALSE(vocabulary->merge('e', 256));
}

TEST(BpeVocabulary, TakesWindowsLineEndsAndMergesOfTheNumberSign) {
  const TestFiles files;
  const auto vocab = files.write("vocab.json", R"({"#": 0, "##": 1})");
  const auto merges = files.write("merges.txt", "# #\r\n");
  const Result<BpeVocabulary> vocabulary = BpeVocabulary::read(vocab, merges);
  ASSERT_TRUE(vocabulary) << vocabulary.error().message;
  EXPECT_EQ(vocabulary->merge(0, 0)->merged, 1u);
  EXPECT_EQ(vocabulary->of_byte('x'), BpeVocabulary::k_no_token);
}

struct Malformed {
  const char* vocab;
  const char* merges;
  const char* file_and_line;
  const char* why;
};

TEST(BpeVocabulary, NamesFileLineAndFault) {
  const char* const good = "{\"a\": 0,\n\"b\": 1, \"ab\": 2}";
  const Malformed cases[] = {
      {"", "a b", "vocab.json:1: ", "too early"},
      {"{\"a\": 0,\n\"b\": 1", "a b", "vocab.json:2: ", "too early"},
      {"{\"a\": 0,\n\n!}", "a b", "vocab.json:3: ", "not JSON"},
      {"{\"a\": 0,\n\"b\": -1}", "a b", "vocab.json:2: ", "\"b\" is -1"},
      {"{\"a\": 0,\n\"b\": 1.5}", "a b", "vocab.json:2: ", "\"b\" is 1.5"},
      {"{\"a\": 0,\n\"b\": 99999999999}", "a b", "vocab.json:2: ", "not a token id"},
      {"{\"a\": 0,\n\"b\": \"1\"}", "a b", "vocab.json:2: ", "a text"},
      {"{\"a\": 0,\n\"b\": {}}", "a b", "vocab.json:2: ", "an object"},
      {"{\"a\": 0,\n\"b\": 0}", "a b", "vocab.json:2: ", "id 0 is given twice"},
      {"{\"a\": 0,\n\"a\": 1}", "a b", "vocab.json:2: ", "token \"a\" is given twice"},
      {"[1]", "a b", "vocab.json:1: ", "a list"},
      {"7", "a b", "vocab.json:1: ", "found 7"},
      {"{}", "a b", "vocab.json:1: ", "no tokens"},
      {good, "", "merges.txt:1: ", "no merges"},
      {good, "#version: 0.2\n", "merges.txt:1: ", "no merges"},
      {good, "#version: 0.2\nab", "merges.txt:2: ", "'ab' is not a pair"},
      {good, "a b\na b c", "merges.txt:2: ", "not a pair"},
      {good, "a b\n b", "merges.txt:2: ", "not a pair"},
      {good, "a b\na c", "merges.txt:2: ", "'c' is not in the vocabulary"},
      {good, "b a", "merges.txt:1: ", "'ba' is not in the vocabulary"},
      {good, "a b\n\na b", "merges.txt:3: ", "earlier line"},
  };
  const TestFiles files;
  for (const Malformed& malformed : cases) {
    const auto vocab = files.write("vocab.json", malformed.vocab);
    const auto merges = files.write("merges.txt", malformed.merges);
    const Result<BpeVocabulary> read = BpeVocabulary::read(vocab, merges);
    ASSERT_FALSE(read) << malformed.vocab << " / " << malformed.merges;
    const std::string expected = (files.directory() / malformed.file_and_line).string();
    EXPECT_EQ(read.error().message.substr(0, expected.size()), expected) << read.error().message;
    EXPECT_NE(read.error().message.find(malformed.why), std::string::npos) << read.error().message;
    EXPECT_EQ(read.error().message.find('\n'), std::string::npos) << read.error().message;
  }
}

TEST(BpeVocabulary, NamesFilesThatAreMissing) {
  const TestFiles files;
  EXPECT_NE(
      BpeVocabulary::read(files.directory() / "no.json", files.merges()).error().message.find("no.json"),
      std::string::npos);
  EXPECT_NE(
      BpeVocabulary::read(files.vocabulary(), files.directory() / "no.txt").error().message.find("no.txt"),
      std::string::npos);
}

}  // namespace
}  // namespace commlens::engine
