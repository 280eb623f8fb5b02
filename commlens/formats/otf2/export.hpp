#pragma once
#include <filesystem>

#include "commlens/base/result.hpp"
#include "commlens/formats/io/sink.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens::formats::otf2 {

/// An OTF2 archive (docs/formats/otf2.md) in an empty directory: traces.otf2, traces.def and traces/. Fails
/// when the module libcommlens-otf2.so is not there and on groups whose ranks are not known.
Result<void> write(const Trace& trace, const CallSelection& selection,
                   const std::filesystem::path& directory);

}  // namespace commlens::formats::otf2
