#pragma once
#include <filesystem>

#include "commlens/base/result.hpp"
#include "commlens/formats/io/sink.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens::formats::chakra {

/// A Chakra execution trace per rank, chakra.RANK.et (docs/formats/chakra.md), in `directory`.
Result<void> write(const Trace& trace, const CallSelection& selection,
                   const std::filesystem::path& directory);

}  // namespace commlens::formats::chakra
