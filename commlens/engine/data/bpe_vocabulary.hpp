#pragma once
#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <unordered_map>

#include "commlens/base/result.hpp"

namespace commlens::engine {

/// The tokens and merges of GPT-2's byte-pair encoding (docs/data.md). Immutable, hence safe for many
/// threads.
class BpeVocabulary {
 public:
  using Token = std::uint32_t;
  static constexpr Token k_no_token = UINT32_MAX;
  struct Merge {
    std::uint32_t rank;  // the lowest goes first
    Token merged;
  };

  /// Reads vocab.json ({"token": id, …}) and merges.txt (a pair per line, the most important first). Fails
  /// with file:line when one is missing, too large or malformed: an id twice, a merge of unknown tokens, …
  static Result<BpeVocabulary> read(const std::filesystem::path& vocab_file,
                                    const std::filesystem::path& merge_file);

  /// One more than the highest id.
  std::int64_t size() const { return size_; }
  /// The token of a single byte, k_no_token where the vocabulary has none.
  Token of_byte(unsigned char byte) const { return of_byte_[byte]; }
  std::optional<Merge> merge(Token left, Token right) const;

 private:
  BpeVocabulary() = default;

  std::int64_t size_ = 0;
  std::array<Token, 256> of_byte_{};
  std::unordered_map<std::uint64_t, Merge> merges_;  // the left token is in the upper half of the key
};

/// The character, as UTF-8, that represents a byte in vocab.json: the byte itself if it is printable Latin-1,
/// else one from U+0100 on. Source: openai/gpt-2 src/encoder.py, bytes_to_unicode.
std::string character_of_byte(unsigned char byte);

}  // namespace commlens::engine
