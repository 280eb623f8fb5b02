#pragma once
#include <filesystem>
#include <string_view>

#include "commlens/base/result.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens::formats::otf2 {

/// An OTF2 archive by its anchor file (docs/formats/otf2.md): messages and collectives of MPI programs. Read
/// in a process of its own; needs the module libcommlens-otf2.so.
Result<Trace> read(const std::filesystem::path& path);

/// True for an anchor file.
bool sniff(const std::filesystem::path& path, std::string_view head);

}  // namespace commlens::formats::otf2
