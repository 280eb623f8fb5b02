#pragma once
#include <filesystem>
#include <string_view>

#include "commlens/base/result.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens::formats::osu {

/// The tables of the OSU micro-benchmarks, of any age, anywhere in a log (docs/formats/mpi-benchmarks.md):
/// one call per row.
Result<Trace> read(const std::filesystem::path& path);

/// True when the text has the title of a test; it is searched beyond `head`.
bool sniff(const std::filesystem::path& path, std::string_view head);

}  // namespace commlens::formats::osu
