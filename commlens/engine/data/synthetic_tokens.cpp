#include "commlens/engine/data/synthetic_tokens.hpp"

#include "commlens/base/check.hpp"

namespace commlens::engine {
namespace {

constexpr std::int64_t k_word_length = 8;
constexpr std::int64_t k_words = 64;

class SyntheticTokens : public TokenSource {
 public:
  SyntheticTokens(std::int64_t vocab, std::uint64_t seed) : vocab_(vocab), seed_(mixed_bits(seed)) {}

  std::int64_t vocab() const override { return vocab_; }
  std::int64_t size() const override { return INT64_MAX; }
  void read(std::int64_t first, std::span<std::int64_t> into) const override {
    for (std::size_t i = 0; i < into.size(); ++i) {
      into[i] = at(first + static_cast<std::int64_t>(i));
    }
  }
  std::string description() const override { return "synthetic tokens"; }

 private:
  std::int64_t at(std::int64_t position) const {
    const std::int64_t uniform =
        mixed_below(seed_ ^ static_cast<std::uint64_t>(position / k_word_length), k_words * k_words);
    const std::int64_t word = uniform * uniform / (k_words * k_words * k_words);  // squared: skewed
    const auto letter = static_cast<std::uint64_t>(word * k_word_length + position % k_word_length);
    return mixed_below(~seed_ + letter, vocab_);
  }

  std::int64_t vocab_;
  std::uint64_t seed_;
};

}  // namespace

std::uint64_t mixed_bits(std::uint64_t value) {
  value += 0x9e3779b97f4a7c15U;
  value = (value ^ (value >> 30U)) * 0xbf58476d1ce4e5b9U;
  value = (value ^ (value >> 27U)) * 0x94d049bb133111ebU;
  return value ^ (value >> 31U);
}

std::int64_t mixed_below(std::uint64_t value, std::int64_t limit) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::int64_t>((static_cast<Wide>(mixed_bits(value)) * static_cast<Wide>(limit)) >> 64U);
}

std::unique_ptr<TokenSource> synthetic_tokens(std::int64_t vocab, std::uint64_t seed) {
  COMMLENS_CHECK(vocab >= 1, "a validated model has a vocabulary");
  return std::make_unique<SyntheticTokens>(vocab, seed);
}

}  // namespace commlens::engine
