#include "commlens/engine/data/token_source.hpp"

#include <fmt/format.h>

#include "commlens/base/check.hpp"
#include "commlens/base/units.hpp"
#include "commlens/engine/data/bpe_tokens.hpp"
#include "commlens/engine/data/byte_tokens.hpp"
#include "commlens/engine/data/synthetic_tokens.hpp"

namespace commlens::engine {
namespace {

bool is_synthetic(const DataOptions& options) { return options.file.empty() || options.file == "synthetic"; }

Result<void> check_encoding_files(const DataOptions& options) {
  if (options.vocab_file.empty() != options.merge_file.empty()) {
    return failure(options.vocab_file.empty()
                       ? "--merge-file needs --vocab-file beside it (GPT-2's vocab.json)"
                       : "--vocab-file needs --merge-file beside it (GPT-2's merges.txt)");
  }
  if (is_synthetic(options) && !options.vocab_file.empty()) {
    return failure("--vocab-file and --merge-file encode a text; give one with --data FILE");
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<TokenSource>> open_tokens(const DataOptions& options, std::int64_t sequence,
                                                 std::int64_t vocab, std::uint64_t seed) {
  if (const Result<void> ok = check_encoding_files(options); !ok) {
    return tl::unexpected(ok.error());
  }
  if (is_synthetic(options)) {
    return synthetic_tokens(vocab, seed);
  }
  const bool encodes = !options.vocab_file.empty();
  Result<std::unique_ptr<TokenSource>> tokens =
      encodes ? open_bpe(options.file, options.vocab_file, options.merge_file) : open_bytes(options.file);
  if (!tokens) {
    return tokens;
  }
  if ((*tokens)->vocab() > vocab) {
    return failure(
        fmt::format("{}: its tokens are numbered up to {}, the model has a vocabulary of {}; use "
                    "--vocab {} or more",
                    encodes ? options.vocab_file.string() : options.file, with_commas((*tokens)->vocab() - 1),
                    with_commas(vocab), (*tokens)->vocab()));
  }
  if ((*tokens)->size() <= sequence) {
    return failure(
        fmt::format("{}: {} tokens are less than one sequence of {} and its last target; give a longer text "
                    "or a shorter --seq",
                    options.file, with_commas((*tokens)->size()), with_commas(sequence)));
  }
  return tokens;
}

std::int64_t sequence_start(const TokenSource& source, std::int64_t sequence, std::int64_t index,
                            std::uint64_t seed) {
  COMMLENS_CHECK(source.size() > sequence, "open_tokens refuses shorter sources");
  return mixed_below(mixed_bits(seed) ^ static_cast<std::uint64_t>(index), source.size() - sequence);
}

}  // namespace commlens::engine
