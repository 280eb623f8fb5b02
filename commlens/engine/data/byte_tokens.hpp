#pragma once
#include <filesystem>
#include <memory>

#include "commlens/base/result.hpp"
#include "commlens/engine/data/token_source.hpp"

namespace commlens::engine {

/// The bytes of a file, each a token. The file stays mapped and must not shrink meanwhile. Fails, naming the
/// file, when it is missing, a directory, unreadable or empty.
Result<std::unique_ptr<TokenSource>> open_bytes(const std::filesystem::path& file);

}  // namespace commlens::engine
