#pragma once
#include <filesystem>

#include "commlens/base/result.hpp"
#include "commlens/formats/otf2/isolated.hpp"

namespace commlens::formats::otf2 {

/// Reads the archive of an anchor file with the OTF2 library (docs/formats/otf2.md).
Result<void> read_archive(const std::filesystem::path& anchor, const RecordSink& sink);

}  // namespace commlens::formats::otf2
