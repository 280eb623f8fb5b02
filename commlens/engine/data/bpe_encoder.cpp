#include "commlens/engine/data/bpe_encoder.hpp"

#include <queue>
#include <tuple>

#include "commlens/base/check.hpp"

namespace commlens::engine {
namespace {

using Token = BpeVocabulary::Token;

constexpr std::size_t k_longest_known = 64;                 // most bytes of a cached word
constexpr std::size_t k_most_known = std::size_t{1} << 20;  // words

/// The symbols of a piece as a doubly linked list: a merge joins a symbol with the next one.
class Symbols {
 public:
  Symbols(const BpeVocabulary& vocabulary, std::string_view piece) : vocabulary_(vocabulary) {
    symbols_.reserve(piece.size());
    for (const char byte : piece) {
      const Token token = vocabulary.of_byte(static_cast<unsigned char>(byte));
      COMMLENS_CHECK(token != BpeVocabulary::k_no_token, "every byte of the text was looked up before");
      const auto at = static_cast<std::int64_t>(symbols_.size());
      symbols_.push_back({token, at - 1, at + 1});
    }
    for (std::int64_t at = 0; at + 1 < size(); ++at) {
      propose(at);
    }
  }

  void merge_all() {
    while (!candidates_.empty()) {
      const Candidate best = candidates_.top();
      candidates_.pop();
      Symbol& left = symbols_[static_cast<std::size_t>(best.at)];
      if (left.token != best.left || left.next >= size() || of(left.next).token != best.right) {
        continue;  // one of the two was merged in the meantime
      }
      left.token = best.merged;
      of(left.next).token = BpeVocabulary::k_no_token;
      left.next = of(left.next).next;
      if (left.next < size()) {
        of(left.next).previous = best.at;
        propose(best.at);
      }
      if (left.previous >= 0) {
        propose(left.previous);
      }
    }
  }

  std::vector<Token> tokens() const {
    std::vector<Token> result;
    for (std::int64_t at = 0; at < size(); at = symbols_[static_cast<std::size_t>(at)].next) {
      result.push_back(symbols_[static_cast<std::size_t>(at)].token);
    }
    return result;
  }

 private:
  struct Symbol {
    Token token;
    std::int64_t previous;
    std::int64_t next;
  };
  struct Candidate {
    std::uint32_t rank;
    std::int64_t at;
    Token left;
    Token right;
    Token merged;
    bool operator>(const Candidate& other) const {
      return std::tie(rank, at) > std::tie(other.rank, other.at);
    }
  };

  std::int64_t size() const { return static_cast<std::int64_t>(symbols_.size()); }
  Symbol& of(std::int64_t at) { return symbols_[static_cast<std::size_t>(at)]; }
  void propose(std::int64_t at) {
    const Token left = of(at).token;
    const Token right = of(of(at).next).token;
    if (const auto merge = vocabulary_.merge(left, right)) {
      candidates_.push({merge->rank, at, left, right, merge->merged});
    }
  }

  const BpeVocabulary& vocabulary_;
  std::vector<Symbol> symbols_;
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> candidates_;
};

}  // namespace

std::vector<Token> merged_tokens(const BpeVocabulary& vocabulary, std::string_view piece) {
  Symbols symbols(vocabulary, piece);
  symbols.merge_all();
  return symbols.tokens();
}

void BpeEncoder::append(std::string_view text, std::vector<Token>& tokens) {
  pieces_.clear();
  splitter_.split(text, scratch_, pieces_);
  for (const std::string_view piece : pieces_) {
    append_piece(piece, tokens);
  }
}

void BpeEncoder::append_piece(std::string_view piece, std::vector<Token>& tokens) {
  if (const auto known = words_.find(piece); known != words_.end()) {
    tokens.insert(tokens.end(), known->second.begin(), known->second.end());
    return;
  }
  std::vector<Token> word = merged_tokens(vocabulary_, piece);
  tokens.insert(tokens.end(), word.begin(), word.end());
  if (piece.size() <= k_longest_known && words_.size() < k_most_known) {
    words_.emplace(piece, std::move(word));
  }
}

}  // namespace commlens::engine
