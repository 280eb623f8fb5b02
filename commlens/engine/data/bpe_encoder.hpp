#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "commlens/engine/data/bpe_pieces.hpp"
#include "commlens/engine/data/bpe_vocabulary.hpp"

namespace commlens::engine {

/// Encodes text by GPT-2's byte-pair encoding and caches words. For one thread; vocabulary and splitter must
/// outlive it.
class BpeEncoder {
 public:
  using Token = BpeVocabulary::Token;
  BpeEncoder(const BpeVocabulary& vocabulary, const PieceSplitter& splitter)
      : vocabulary_(vocabulary), splitter_(splitter), scratch_(splitter) {}

  /// Appends the tokens of `text`. Every byte of it has a token.
  void append(std::string_view text, std::vector<Token>& tokens);

 private:
  struct TextHash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
  };
  void append_piece(std::string_view piece, std::vector<Token>& tokens);

  const BpeVocabulary& vocabulary_;
  const PieceSplitter& splitter_;
  PieceSplitter::Scratch scratch_;
  std::vector<std::string_view> pieces_;
  std::unordered_map<std::string, std::vector<Token>, TextHash, std::equal_to<>> words_;
};

/// The tokens of one piece: its bytes, of which the pair of lowest rank merges, the leftmost first, until
/// none does. Takes n log n steps for n bytes.
std::vector<BpeVocabulary::Token> merged_tokens(const BpeVocabulary& vocabulary, std::string_view piece);

}  // namespace commlens::engine
