#include "commlens/engine/data/token_source.hpp"

#include <algorithm>
#include <set>

#include <gtest/gtest.h>

#include "commlens/engine/data/test_files.hpp"

namespace commlens::engine {
namespace {

std::vector<std::int64_t> tokens_of(const TokenSource& source, std::int64_t first, std::size_t count) {
  std::vector<std::int64_t> tokens(count);
  source.read(first, tokens);
  return tokens;
}

std::string refusal(const DataOptions& options, std::int64_t sequence, std::int64_t vocab) {
  const auto tokens = open_tokens(options, sequence, vocab, 1);
  return tokens ? "opened" : tokens.error().message;
}

TEST(Bytes, AreTheTokens) {
  const TestFiles files;
  const auto tokens = open_tokens({.file = files.write("text", "az\xff\n").string()}, 3, 256, 1);
  ASSERT_TRUE(tokens) << tokens.error().message;
  EXPECT_EQ((*tokens)->vocab(), 256);
  EXPECT_EQ((*tokens)->size(), 4);
  EXPECT_EQ(tokens_of(**tokens, 0, 4), (std::vector<std::int64_t>{97, 122, 255, 10}));
  EXPECT_EQ(tokens_of(**tokens, 2, 1), std::vector<std::int64_t>{255});
  EXPECT_EQ((*tokens)->description(), "text, 4 bytes");
}

TEST(OpenTokens, RefusesWhatCannotBeTrainedOn) {
  const TestFiles files;
  const std::string text = files.write("text", "0123456789").string();
  const std::string vocab = files.vocabulary().string();
  const std::string merges = files.merges().string();
  const std::string directory = files.directory().string();
  const struct {
    DataOptions options;
    std::int64_t sequence;
    std::int64_t vocab;
    std::string says;
  } cases[] = {
      {{.file = directory + "/no"}, 4, 256, directory + "/no: no such file"},
      {{.file = directory}, 4, 256, directory + ": not a regular file"},
      {{.file = files.write("empty", "").string()}, 4, 256, "/empty: the file is empty"},
      {{.file = text}, 10, 256, "/text: 10 tokens are less than one sequence of 10"},
      {{.file = text}, 4, 255, "numbered up to 255, the model has a vocabulary of 255; use --vocab 256"},
      {{.file = text, .vocab_file = vocab}, 4, 300, "--vocab-file needs --merge-file"},
      {{.file = text, .merge_file = merges}, 4, 300, "--merge-file needs --vocab-file"},
      {{.file = "synthetic", .vocab_file = vocab, .merge_file = merges}, 4, 300, "give one with --data FILE"},
      {{.file = text, .vocab_file = vocab, .merge_file = merges}, 4, 260, "use --vocab 261"},
      {{.file = directory + "/empty", .vocab_file = vocab, .merge_file = merges},
       4,
       300,
       "the file is empty"},
      {{.file = text, .vocab_file = merges, .merge_file = merges}, 4, 300, "merges.txt:1: this is not JSON"},
  };
  for (const auto& refused : cases) {
    const std::string message = refusal(refused.options, refused.sequence, refused.vocab);
    EXPECT_NE(message.find(refused.says), std::string::npos) << message;
  }
}

TEST(OpenTokens, TakesATextOfOneSequenceAndItsTarget) {
  const TestFiles files;
  const auto tokens = open_tokens({.file = files.write("text", "01234").string()}, 4, 256, 1);
  ASSERT_TRUE(tokens) << tokens.error().message;
  for (std::int64_t index = 0; index < 10; ++index) {
    EXPECT_EQ(sequence_start(**tokens, 4, index, 1), 0);
  }
}

TEST(BytePairs, OfALongTextAreThoseOfItsWords) {
  const TestFiles files;
  std::string text;
  constexpr std::int64_t lines = 20'000;  // several parts
  for (std::int64_t line = 0; line < lines; ++line) {
    text += "the he\n";
  }
  const DataOptions options{files.write("text", text).string(), files.vocabulary(), files.merges()};
  const auto tokens = open_tokens(options, 8, 261, 1);
  ASSERT_TRUE(tokens) << tokens.error().message;
  EXPECT_EQ((*tokens)->vocab(), 261);
  ASSERT_EQ((*tokens)->size(), 4 * lines);
  const std::vector<std::int64_t> line = {257, 32, 259, 10};
  for (std::int64_t first = 0; first < 4 * lines; first += 4) {
    ASSERT_EQ(tokens_of(**tokens, first, 4), line) << "from " << first;
  }
  EXPECT_EQ((*tokens)->description(), "text, 80,000 tokens (byte-pair encoding)");
}

TEST(BytePairs, OfAByteWithoutATokenAreRefused) {
  const TestFiles files;
  const auto vocab = files.write("vocab.json", R"({"a": 0, "aa": 1, "Ċ": 2})");
  const auto merges = files.write("merges.txt", "a a\n");
  const auto text = files.write("text", "aa\naab");
  EXPECT_EQ(refusal({text.string(), vocab, merges}, 1, 8),
            text.string() + ":2: the vocabulary file has no token for byte 0x62");
}

TEST(Synthetic, IsAFunctionOfPositionAndSeed) {
  const auto a = open_tokens({}, 16, 1000, 7);
  const auto b = open_tokens({.file = "synthetic"}, 16, 1000, 7);
  const auto c = open_tokens({}, 16, 1000, 8);
  ASSERT_TRUE(a && b && c);
  const std::vector<std::int64_t> tokens = tokens_of(**a, 0, 4096);
  EXPECT_EQ(tokens, tokens_of(**b, 0, 4096));
  EXPECT_NE(tokens, tokens_of(**c, 0, 4096));
  EXPECT_EQ(tokens_of(**a, 1001, 10),
            std::vector<std::int64_t>(tokens.begin() + 1001, tokens.begin() + 1011));
  EXPECT_EQ((*a)->vocab(), 1000);
  EXPECT_LT(*std::max_element(tokens.begin(), tokens.end()), 1000);
  EXPECT_GE(*std::min_element(tokens.begin(), tokens.end()), 0);
}

TEST(Synthetic, IsMadeOfFewWords) {
  const auto source = open_tokens({}, 16, 50'000, 7);
  std::set<std::vector<std::int64_t>> words;
  for (std::int64_t word = 0; word < 4096; ++word) {
    words.insert(tokens_of(**source, 8 * word, 8));
  }
  EXPECT_LE(words.size(), 64u);
  EXPECT_GT(words.size(), 32u);
}

TEST(SequenceStart, SpreadsOverTheSourceAndStaysInside) {
  const TestFiles files;
  const auto tokens = open_tokens({.file = files.write("text", std::string(1000, 'x')).string()}, 10, 256, 1);
  ASSERT_TRUE(tokens);
  std::set<std::int64_t> starts;
  for (std::int64_t index = 0; index < 2000; ++index) {
    const std::int64_t start = sequence_start(**tokens, 10, index, 1);
    ASSERT_GE(start, 0);
    ASSERT_LE(start + 10, 999);  // its last target
    EXPECT_EQ(start, sequence_start(**tokens, 10, index, 1));
    starts.insert(start);
  }
  EXPECT_GT(starts.size(), 700u);  // of 990; 2000 draws leave 13 % out
  EXPECT_NE(sequence_start(**tokens, 10, 0, 1), sequence_start(**tokens, 10, 0, 2));
}

TEST(SequenceStart, TakesAnEndlessSource) {
  const auto tokens = open_tokens({}, 2048, 100, 1);
  const std::int64_t start = sequence_start(**tokens, 2048, 3, 1);
  EXPECT_GE(start, 0);
  EXPECT_LT(start, INT64_MAX - 2048);
}

}  // namespace
}  // namespace commlens::engine
