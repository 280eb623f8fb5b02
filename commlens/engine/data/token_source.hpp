#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "commlens/base/result.hpp"

namespace commlens::engine {

/// The source of the tokens.
struct DataOptions {
  std::string file;                  // empty or "synthetic": generated
  std::filesystem::path vocab_file;  // with merge_file: GPT-2 byte-pair encoding, else bytes
  std::filesystem::path merge_file;
};

/// A long sequence of tokens that batches are cut from. Thread-safe for reading.
class TokenSource {
 public:
  virtual ~TokenSource() = default;
  /// Ids used: all tokens are below it. 256 for bytes.
  virtual std::int64_t vocab() const = 0;
  /// Tokens in all; INT64_MAX for synthetic ones.
  virtual std::int64_t size() const = 0;
  /// Copies tokens [first, first + into.size()) ; the range lies in [0, size()).
  virtual void read(std::int64_t first, std::span<std::int64_t> into) const = 0;
  /// "bible.txt, 4,432,803 bytes"
  virtual std::string description() const = 0;
};

/// Opens the source. Fails, naming the file, when it is missing, a directory, empty, unreadable, or shorter
/// than one sequence and its last target (`sequence` + 1 tokens), when one of vocab_file and merge_file is
/// missing or malformed, or when the tokens do not fit `vocab`, the model's (unpadded) vocabulary. Synthetic
/// tokens are a function of position and `seed`, with structure a model can learn.
Result<std::unique_ptr<TokenSource>> open_tokens(const DataOptions& options, std::int64_t sequence,
                                                 std::int64_t vocab, std::uint64_t seed);

/// First token of sequence `index` of the job (index = iteration * global batch + position in it): a
/// pseudo-random but fixed function of the seed; its sequence + 1 tokens lie inside the source.
std::int64_t sequence_start(const TokenSource& source, std::int64_t sequence, std::int64_t index,
                            std::uint64_t seed);

}  // namespace commlens::engine
