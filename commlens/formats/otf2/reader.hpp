#pragma once
#include <filesystem>

#include "commlens/base/result.hpp"
#include "commlens/formats/io/isolated.hpp"

namespace commlens {

/// Reads the archive behind an anchor file with the OTF2 library (docs/formats/otf2.md).
Result<void> read_otf2_archive(const std::filesystem::path& anchor, const RecordSink& sink);

}  // namespace commlens
