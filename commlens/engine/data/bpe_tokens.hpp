#pragma once
#include <filesystem>
#include <memory>

#include "commlens/base/result.hpp"
#include "commlens/engine/data/token_source.hpp"

namespace commlens::engine {

/// The text of a file in GPT-2's byte-pair encoding, encoded immediately on all cores and held in memory (two
/// bytes a token, four beyond 65,536 ids). Invalid UTF-8 is encoded byte by byte. Fails, naming file and
/// line, when a file is missing, empty, too large or malformed, or when a byte of the text has no token.
Result<std::unique_ptr<TokenSource>> open_bpe(const std::filesystem::path& file,
                                              const std::filesystem::path& vocab_file,
                                              const std::filesystem::path& merge_file);

}  // namespace commlens::engine
