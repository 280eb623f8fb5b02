#pragma once
#include <filesystem>

#include "commlens/base/result.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens::formats::otf2 {

/// Writes a trace as traces.otf2, traces.def and traces/ into an empty directory (docs/formats/otf2.md).
/// Fails on groups whose ranks are not known and on more than 2^20 ranks; throws SystemError when the disk
/// does.
Result<void> write_archive(const Trace& trace, const std::filesystem::path& directory);

}  // namespace commlens::formats::otf2
