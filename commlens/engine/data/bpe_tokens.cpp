#include "commlens/engine/data/bpe_tokens.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <future>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "commlens/base/units.hpp"
#include "commlens/engine/data/bpe_encoder.hpp"
#include "commlens/trace/mapped_file.hpp"

namespace commlens::engine {
namespace {

using Token = BpeVocabulary::Token;
using Block = std::vector<Token>;

constexpr std::size_t k_size_limit = std::size_t{16} << 30;  // of the text
constexpr std::size_t k_part = std::size_t{32} << 10;        // short: PCRE2 without its compiler looks ahead

template <typename Stored>
class EncodedTokens : public TokenSource {
 public:
  EncodedTokens(std::vector<Stored> tokens, std::int64_t vocab, std::string description)
      : tokens_(std::move(tokens)), vocab_(vocab), description_(std::move(description)) {}

  std::int64_t vocab() const override { return vocab_; }
  std::int64_t size() const override { return static_cast<std::int64_t>(tokens_.size()); }
  void read(std::int64_t first, std::span<std::int64_t> into) const override {
    const std::span<const Stored> part =
        std::span<const Stored>(tokens_).subspan(static_cast<std::size_t>(first), into.size());
    std::copy(part.begin(), part.end(), into.begin());
  }
  std::string description() const override { return description_; }

 private:
  std::vector<Stored> tokens_;
  std::int64_t vocab_;
  std::string description_;
};

/// Refuses a text with a byte that the vocabulary has no token for.
Result<void> check_bytes(std::string_view text, const BpeVocabulary& vocabulary, const std::string& file) {
  std::array<bool, 256> has_none{};
  for (unsigned byte = 0; byte < has_none.size(); ++byte) {
    has_none[byte] = vocabulary.of_byte(static_cast<unsigned char>(byte)) == BpeVocabulary::k_no_token;
  }
  const auto found = std::find_if(text.begin(), text.end(),
                                  [&](char byte) { return has_none[static_cast<unsigned char>(byte)]; });
  if (found == text.end()) {
    return {};
  }
  return failure(fmt::format("{}:{}: the vocabulary file has no token for byte 0x{:02x}", file,
                             1 + std::count(text.begin(), found, '\n'), static_cast<unsigned char>(*found)));
}

std::vector<Block> encoded(std::string_view text, const BpeVocabulary& vocabulary) {
  const PieceSplitter splitter;
  const std::vector<std::string_view> parts = parts_of(text, k_part);
  std::vector<Block> blocks(parts.size());
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    BpeEncoder encoder(vocabulary, splitter);
    for (std::size_t at = next++; at < parts.size(); at = next++) {
      encoder.append(parts[at], blocks[at]);
    }
  };
  const std::size_t cores = std::max(1U, std::thread::hardware_concurrency());
  std::vector<std::future<void>> others;
  for (std::size_t i = 1; i < std::min(cores, parts.size()); ++i) {
    others.push_back(std::async(std::launch::async, work));
  }
  work();
  for (std::future<void>& other : others) {
    other.get();
  }
  return blocks;
}

template <typename Stored>
std::unique_ptr<TokenSource> joined(std::vector<Block> blocks, std::int64_t vocab, const std::string& name) {
  std::size_t size = 0;
  for (const Block& block : blocks) {
    size += block.size();
  }
  std::vector<Stored> tokens;
  tokens.reserve(size);
  for (Block& block : blocks) {
    for (const Token token : block) {
      tokens.push_back(static_cast<Stored>(token));
    }
    Block().swap(block);
  }
  return std::make_unique<EncodedTokens<Stored>>(
      std::move(tokens), vocab,
      fmt::format("{}, {} tokens (byte-pair encoding)", name, with_commas(static_cast<std::int64_t>(size))));
}

}  // namespace

Result<std::unique_ptr<TokenSource>> open_bpe(const std::filesystem::path& file,
                                              const std::filesystem::path& vocab_file,
                                              const std::filesystem::path& merge_file) {
  const Result<MappedFile> mapped = MappedFile::open(file);
  if (!mapped) {
    return tl::unexpected(mapped.error());
  }
  const std::string_view text(reinterpret_cast<const char*>(mapped->bytes().data()), mapped->bytes().size());
  if (text.empty()) {
    return failure(fmt::format("{}: the file is empty; give a text to train on", file.string()));
  }
  if (text.size() > k_size_limit) {
    return failure(
        fmt::format("{}: {} bytes are too many to encode in memory, the limit is {}; give a part of "
                    "it, or leave --vocab-file out to train on bytes",
                    file.string(), with_commas(static_cast<std::int64_t>(text.size())),
                    with_commas(static_cast<std::int64_t>(k_size_limit))));
  }
  const Result<BpeVocabulary> vocabulary = BpeVocabulary::read(vocab_file, merge_file);
  if (!vocabulary) {
    return tl::unexpected(vocabulary.error());
  }
  if (const Result<void> ok = check_bytes(text, *vocabulary, file.string()); !ok) {
    return tl::unexpected(ok.error());
  }
  std::vector<Block> blocks = encoded(text, *vocabulary);
  const std::string name = file.filename().string();
  constexpr std::int64_t most_short = 1 << 16;
  return vocabulary->size() <= most_short
             ? joined<std::uint16_t>(std::move(blocks), vocabulary->size(), name)
             : joined<std::uint32_t>(std::move(blocks), vocabulary->size(), name);
}

}  // namespace commlens::engine
