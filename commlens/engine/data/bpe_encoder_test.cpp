#include "commlens/engine/data/bpe_encoder.hpp"

#include <gtest/gtest.h>

#include "commlens/engine/data/test_files.hpp"

namespace commlens::engine {
namespace {

using Tokens = std::vector<BpeVocabulary::Token>;

class Encoder : public testing::Test {
 protected:
  Tokens encoded(std::string_view text) {
    Tokens tokens;
    encoder_.append(text, tokens);
    return tokens;
  }

  TestFiles files_;
  BpeVocabulary vocabulary_ = *BpeVocabulary::read(files_.vocabulary(), files_.merges());
  PieceSplitter splitter_;
  BpeEncoder encoder_{vocabulary_, splitter_};
};

TEST_F(Encoder, MergesTheLowestRankFirst) {
  EXPECT_EQ(encoded("the"), Tokens{257});          // t h, then th e; not h e
  EXPECT_EQ(encoded("thhe"), (Tokens{256, 259}));  // th he
  EXPECT_EQ(encoded("he"), Tokens{259});
}

TEST_F(Encoder, MergesEqualPairsFromTheLeft) {
  EXPECT_EQ(encoded("aaa"), (Tokens{260, 'a'}));
  EXPECT_EQ(encoded("aaaa"), (Tokens{260, 260}));
}

TEST_F(Encoder, MergesTheSpaceBeforeAWordIntoIt) {
  EXPECT_EQ(encoded("the the"), (Tokens{257, 258}));
  EXPECT_EQ(encoded("  the"), (Tokens{' ', 258}));
}

TEST_F(Encoder, MergesWithinAPieceOnly) {
  EXPECT_EQ(encoded("a a"), (Tokens{'a', ' ', 'a'}));
  EXPECT_EQ(encoded("t'he"), (Tokens{'t', '\'', 259}));
}

TEST_F(Encoder, TakesEveryByte) {
  EXPECT_EQ(encoded("é\xff"), (Tokens{0xc3, 0xa9, 0xff}));
  EXPECT_EQ(encoded(std::string_view("\0", 1)), Tokens{0});
}

TEST_F(Encoder, GivesTheSameForAWordItKnows) {
  EXPECT_EQ(encoded(" the"), Tokens{258});
  EXPECT_EQ(encoded(" the"), Tokens{258});
}

TEST_F(Encoder, IsQuickOnALongWord) {
  // 2^20 times a: 2^19 times aa. Merging by rescanning the word would take hours.
  EXPECT_EQ(merged_tokens(vocabulary_, std::string(1 << 20, 'a')), Tokens(1 << 19, 260));
}

}  // namespace
}  // namespace commlens::engine
