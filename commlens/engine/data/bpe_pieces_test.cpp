#include "commlens/engine/data/bpe_pieces.hpp"

#include <numeric>

#include <gtest/gtest.h>

namespace commlens::engine {
namespace {

using Pieces = std::vector<std::string_view>;

Pieces pieces_of(std::string_view text) {
  const PieceSplitter splitter;
  PieceSplitter::Scratch scratch(splitter);
  Pieces pieces;
  splitter.split(text, scratch, pieces);
  return pieces;
}

TEST(PieceSplitter, KeepsTheSpaceBeforeAWordWithIt) {
  EXPECT_EQ(pieces_of("one two"), (Pieces{"one", " two"}));
  EXPECT_EQ(pieces_of(" 42nd!"), (Pieces{" 42", "nd", "!"}));
  EXPECT_EQ(pieces_of("a (b)"), (Pieces{"a", " (", "b", ")"}));
}

TEST(PieceSplitter, LeavesOneSpaceOfManyToTheNextWord) {
  EXPECT_EQ(pieces_of("a   b"), (Pieces{"a", "  ", " b"}));
  EXPECT_EQ(pieces_of("a\n\nb"), (Pieces{"a", "\n", "\n", "b"}));
}

TEST(PieceSplitter, KeepsTrailingWhiteSpaceTogether) {
  EXPECT_EQ(pieces_of("a  \n "), (Pieces{"a", "  \n "}));
}

TEST(PieceSplitter, SplitsTheEndingsOfContractions) {
  EXPECT_EQ(pieces_of("I've it's we'll"), (Pieces{"I", "'ve", " it", "'s", " we", "'ll"}));
  EXPECT_EQ(pieces_of("don't DON'T"), (Pieces{"don", "'t", " DON", "'", "T"}));  // lower case only, as GPT-2
}

TEST(PieceSplitter, KnowsLettersDigitsAndSpacesOfAllScripts) {
  EXPECT_EQ(pieces_of("naïve Привет数２"), (Pieces{"naïve", " Привет数", "２"}));
  EXPECT_EQ(pieces_of("a\u00a0b"), (Pieces{"a", "\u00a0", "b"}));
  EXPECT_EQ(pieces_of("ok👍"), (Pieces{"ok", "👍"}));
}

TEST(PieceSplitter, MakesBytesThatAreNoTextAPieceOfTheirOwn) {
  EXPECT_EQ(pieces_of("ab\xff\xfe cd"), (Pieces{"ab", "\xff\xfe", " cd"}));
  EXPECT_EQ(pieces_of("\xc3"), (Pieces{"\xc3"}));
  EXPECT_EQ(pieces_of(""), Pieces{});
}

TEST(PieceSplitter, TakesAMegabyteWithoutABoundary) {
  const std::string word(1 << 20, 'x');
  EXPECT_EQ(pieces_of(word), Pieces{word});
  const std::string spaces(1 << 20, ' ');
  EXPECT_EQ(pieces_of(spaces + "x"), (Pieces{std::string_view(spaces).substr(1), " x"}));
}

TEST(Parts, EndWhereAWordEnds) {
  EXPECT_EQ(parts_of("one two\nthree  four", 2), (Pieces{"one", " two", "\nthree", "  four"}));
  EXPECT_EQ(parts_of("one two", 100), (Pieces{"one two"}));
  EXPECT_EQ(parts_of("", 100), Pieces{});
}

TEST(Parts, HaveThePiecesOfTheWholeText) {
  const std::string text = "It's  so:\n\n\tnaïve\u00a0 über '42' \n I'll\xff see. \n";
  for (std::size_t least = 1; least < text.size(); ++least) {
    Pieces pieces;
    for (const std::string_view part : parts_of(text, least)) {
      const Pieces more = pieces_of(part);
      pieces.insert(pieces.end(), more.begin(), more.end());
    }
    EXPECT_EQ(pieces, pieces_of(text)) << "least=" << least;
  }
}

}  // namespace
}  // namespace commlens::engine
