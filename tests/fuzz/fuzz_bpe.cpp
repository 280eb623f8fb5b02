// GPT-2's vocab.json, merges.txt and a text to encode, one after the other with a zero byte between them.
#include <algorithm>

#include "commlens/base/check.hpp"
#include "commlens/engine/data/bpe_encoder.hpp"
#include "tests/fuzz/input_file.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace commlens;
  using namespace commlens::engine;
  static const InputDirectory directory;
  static const PieceSplitter splitter;
  const std::string_view input = as_text(bytes, size);
  const std::size_t vocab_end = std::min(input.find('\0'), input.size());
  const std::size_t merges_end = std::min(input.find('\0', vocab_end + 1), input.size());
  const std::size_t merges_start = std::min(vocab_end + 1, merges_end);
  const Result<BpeVocabulary> vocabulary = BpeVocabulary::read(
      directory.write("vocab.json", input.substr(0, vocab_end)),
      directory.write("merges.txt", input.substr(merges_start, merges_end - merges_start)));
  const std::string_view text = input.substr(std::min(merges_end + 1, input.size()));
  PieceSplitter::Scratch scratch(splitter);
  std::vector<std::string_view> pieces;
  std::size_t covered = 0;
  for (const std::string_view part : parts_of(text, 16)) {
    splitter.split(part, scratch, pieces);
  }
  for (const std::string_view piece : pieces) {
    covered += piece.size();
  }
  COMMLENS_CHECK(covered == text.size(), "the pieces together are the text");
  if (!vocabulary) {
    COMMLENS_CHECK(vocabulary.error().message.find('\n') == std::string::npos, "errors are one line");
    return 0;
  }
  for (const char byte : text) {
    if (vocabulary->of_byte(static_cast<unsigned char>(byte)) == BpeVocabulary::k_no_token) {
      return 0;
    }
  }
  std::vector<BpeEncoder::Token> tokens;
  BpeEncoder(*vocabulary, splitter).append(text, tokens);
  COMMLENS_CHECK(tokens.size() <= text.size(), "a token stands for a byte or more");
  return 0;
}
